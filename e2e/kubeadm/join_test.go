// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// joinCommand returns the arguments of the command that kubeadm prints for a new bootstrap token.
func joinCommand(t *testing.T, more ...string) []string {
	t.Helper()
	printed := strings.Fields(first.run(t, "kubeadm", "token", "create", "--print-join-command"))
	if len(printed) < 2 || printed[0] != "kubeadm" || printed[1] != "join" {
		t.Fatalf("kubeadm printed %q", printed)
	}
	return slices.Concat(printed[1:], more, []string{ignored})
}

func testJoin(t *testing.T) {
	worker.run(t, "kubeadm", joinCommand(t)...)
	checkBootstrap(t, worker)
	connectPods(t, 2)
	worker.waitForNode(t)
	first.kubectl(t, "run", "echo", "--image="+workloadImage, "--image-pull-policy=IfNotPresent", "--", "serve")
	first.kubectl(t, "expose", "pod", "echo", "--port=80", "--target-port=8080")
	first.kubectl(t, "wait", "--for=condition=Ready", "--timeout=3m", "pod/echo")
	assert.Equal(t, string(worker), first.kubectl(t, "get", "pod", "echo", "-o", "jsonpath={.spec.nodeName}"))
	checkCluster(t)
	checkPod(t)
}

// checkBootstrap checks that a node got its certificate by its bootstrap token.
func checkBootstrap(t *testing.T, m machine) {
	t.Helper()
	eventually(t, "the request of "+string(m)+" for a certificate is approved", func(ctx context.Context) error {
		requests, err := env.Cluster.Client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range requests.Items {
			request := &requests.Items[i]
			approved := slices.ContainsFunc(request.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
				return c.Type == certificatesv1.CertificateApproved
			})
			if strings.HasPrefix(request.Spec.Username, "system:bootstrap:") && approved && len(request.Status.Certificate) > 0 {
				return nil
			}
		}
		return fmt.Errorf("none of %d requests", len(requests.Items))
	})
}

func testJoinControlPlane(t *testing.T, build string) {
	uploaded := strings.Fields(first.run(t, "kubeadm", "init", "phase", "upload-certs", "--upload-certs"))
	key := uploaded[len(uploaded)-1]
	second.patch(t, imageOf(build))
	second.run(t, "kubeadm", joinCommand(t, "--control-plane", "--certificate-key="+key, "--patches="+patchDir)...)
	connectPods(t, 3)
	second.waitForNode(t)
	second.expectTripod(t, build)

	server := "--server=https://" + string(second) + ":6443"
	assert.Contains(t, second.kubectl(t, server, "get", "nodes", "--no-headers"), string(worker))
	eventually(t, "the Service of the API server has both addresses", func(ctx context.Context) error {
		slice, err := env.Cluster.Client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		if err == nil && len(slice.Endpoints) != 2 {
			err = fmt.Errorf("it has %v", slice.Endpoints)
		}
		return err
	})
	checkCluster(t)
	checkPod(t)
}

// testUsers checks the other commands of kubeadm that talk to the API server.
func testUsers(t *testing.T) {
	token := strings.TrimSpace(first.run(t, "kubeadm", "token", "create", "--ttl=1h", "--description=for a test"))
	assert.Contains(t, first.run(t, "kubeadm", "token", "list"), token)
	first.run(t, "kubeadm", "token", "delete", token)
	assert.NotContains(t, first.run(t, "kubeadm", "token", "list"), token)

	const file = "/root/jane.conf"
	first.write(t, file, first.run(t, "kubeadm", "kubeconfig", "user", "--config="+configPath, "--client-name=jane", "--org=developers"))
	who := first.run(t, "kubectl", "--kubeconfig="+file, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}")
	assert.Equal(t, `jane ["developers","system:authenticated"]`, who)
	if _, err := first.exec(t.Context(), nil, "kubectl", "--kubeconfig="+file, "get", "nodes"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Error(errors.Join(errors.New("jane has no role, and lists nodes"), err))
	}
}
