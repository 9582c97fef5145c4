// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestInstall checks that a new release is ready and works.
func TestInstall(t *testing.T) {
	r := shared(t)
	t.Run("everything is ready", func(t *testing.T) { everythingIsReady(t, r) })
	t.Run("the tests of the chart pass", func(t *testing.T) {
		progress.Require(t, "helm test", func() error {
			out, err := r.Test(t.Context())
			t.Log(out)
			return err
		})
	})
	t.Run("objects are created, read, changed and deleted", func(t *testing.T) { objects(t, r) })
	t.Run("custom resources are defined and used", func(t *testing.T) { customResources(t, r) })
	t.Run("tokens of service accounts are accepted", func(t *testing.T) { tokens(t, r) })
	t.Run("aggregators are the endpoints of the kubernetes Service", func(t *testing.T) { endpoints(t, r) })
	t.Run("an aggregated API server is reached by an external name", func(t *testing.T) { aggregatedServer(t, r) })
	t.Run("tripod connect reaches it while its pod changes", func(t *testing.T) { connected(t, r) })
}

// everythingIsReady expects that helm returned only when all pods were ready, and that no container restarted.
func everythingIsReady(t *testing.T, r *release.Release) {
	for _, component := range append([]string{release.Etcd}, release.Services...) {
		pods, err := r.AllPods(t.Context(), component)
		require.NoError(t, err)
		assert.Len(t, pods, 1, "%d pods of %s, want 1", len(pods), component)
		for _, pod := range pods {
			if !ready(&pod) || restarts(&pod) > 0 {
				t.Errorf("%s is not ready, or has restarted: %+v", pod.Name, pod.Status)
			}
		}
	}
	newUser(t, r).kubectl("", "get", "--raw", "/readyz?verbose").contains("readyz check passed")
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// connected runs a command by tripod connect, and takes the pod away meanwhile. The release has one aggregator, so there is a gap.
func connected(t *testing.T, r *release.Release) {
	pods := podNames(t, r, release.Aggregator)
	require.Len(t, pods, 1)
	out, err := r.Connected(t.Context(), `"$TRIPOD" kubectl get namespaces -o name
"$TRIPOD" kubectl --kubeconfig "$HOST" -n "$NAMESPACE" delete pod `+pods[0]+`
"$TRIPOD" kubectl get namespace default -o name`)
	require.NoError(t, err, out)
	assert.Equal(t, 2, strings.Count(out, "namespace/default\n"), out)
	require.NoError(t, r.Settled(t.Context(), release.Aggregator))
}

func objects(t *testing.T, r *release.Release) {
	user := newUser(t, r)
	manifest := `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {value: "%d"}}`
	user.kubectl(fmt.Sprintf(manifest, 1), "apply", "-f", "-").contains("configmap/a created")
	user.kubectl(fmt.Sprintf(manifest, 2), "apply", "-f", "-").contains("configmap/a configured")
	user.kubectl(fmt.Sprintf(manifest, 3), "apply", "--server-side", "--force-conflicts", "-f", "-").contains("configmap/a serverside-applied")
	user.kubectl("", "get", "configmap", "a", "-o", "jsonpath={.data.value}").contains("3")
	user.kubectl("", "create", "deployment", "web", "--image=nginx").contains("deployment.apps/web created")
	user.kubectl("", "get", "deployments").contains("web")
	user.kubectl("", "delete", "deployment/web", "configmap/a", "--wait=false").contains("deleted")
	client, err := kubernetes.NewForConfig(r.Admin())
	require.NoError(t, err)
	framework.Eventually(t, "the object is gone", func(ctx context.Context) error {
		list, err := client.CoreV1().ConfigMaps(user.namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("the list still has %v", list.Items)
		}
		return err
	})
}

func customResources(t *testing.T, r *release.Release) {
	user := newUser(t, r)
	const examples = "../docs/examples/"
	user.kubectl("", "apply", "-f", examples+"boats.yaml")
	user.kubectl("", "wait", "--for=condition=Established", "crd/boats.example.com", "--timeout=60s")
	framework.Eventually(t, "boats are served", func(ctx context.Context) error {
		_, err := r.Kubectl(ctx, "", "get", "boats", "-A")
		return err
	})
	user.kubectl("", "apply", "-f", examples+"dinghy.yaml").contains("dinghy")
	user.kubectl("", "get", "boats").contains("dinghy")
	user.kubectl("", "explain", "boat.spec.length").contains("Length over all")
	user.kubectl("", "get", "apiservice", "v1.example.com").contains("tripod-system/extensions", "True")
	user.kubectl("", "get", "apiservice", "v1.apps").contains("tripod-system/core", "True")
	user.kubectl("", "delete", "crd", "boats.example.com")
}

func tokens(t *testing.T, r *release.Release) {
	user := newUser(t, r)
	user.kubectl("", "create", "serviceaccount", "robot")
	config := r.Admin()
	config.CertData, config.KeyData = nil, nil
	config.BearerToken = strings.TrimSpace(user.kubectl("", "create", "token", "robot").out)
	robot, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	if _, err := robot.CoreV1().ConfigMaps(user.namespace).List(t.Context(), metav1.ListOptions{}); err == nil ||
		!strings.Contains(err.Error(), "system:serviceaccount:"+user.namespace+":robot") {
		t.Errorf("a robot without rights: got %v, want a refusal by its name", err)
	}
	user.kubectl("", "create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount="+user.namespace+":robot")
	framework.Eventually(t, "the robot may read", func(ctx context.Context) error {
		_, err := robot.CoreV1().ConfigMaps(user.namespace).List(ctx, metav1.ListOptions{})
		return err
	})
}

func endpoints(t *testing.T, r *release.Release) {
	pods, err := r.Pods(t.Context(), release.Aggregator)
	if err != nil || len(pods) == 0 {
		t.Fatal(err, pods)
	}
	newUser(t, r).kubectl("", "get", "endpointslices", "-n", "default", "kubernetes", "-o", "jsonpath={.endpoints[*].addresses}").contains(pods[0].Status.PodIP)
}
