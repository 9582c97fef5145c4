// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hosting

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	kamajiPKI   = "/etc/kubernetes/pki"
	kamajiAdmin = kamajiPKI + "/admin.conf"
)

// kubeAPIServer returns the program that the image has under the name kube-apiserver.
func (h *host) kubeAPIServer() string {
	h.t.Helper()
	path := filepath.Join(h.root, "kube-apiserver")
	require.NoError(h.t, os.Symlink(h.env.Binary("tripod"), path))
	return path
}

func (h *host) endpoint() string { return fmt.Sprintf("127.0.0.1:%d", h.port(6443)) }

// TestKamajiWithEtcd has a user of etcd that may use its prefix only, and reaches a kubelet by konnectivity.
func TestKamajiWithEtcd(t *testing.T) {
	const tenant, prefix = "default_tenant", "/default_tenant/"
	h := newHost(t, "kamaji-etcd.yaml")
	config := h.pki(kamajiPKI, h.endpoint())
	url, own := h.etcd(kamajiPKI + "/etcd")
	h.etcdUser(own, h.path(kamajiPKI+"/etcd"), "server", tenant)
	etcd := h.etcdClient(url, own)
	h.confine(etcd, tenant, prefix)
	h.kubeconfig(config, "/etc/kubernetes/konnectivity-server.conf", "system:konnectivity-server")
	egress, err := os.ReadFile(filepath.Join("testdata", "egress-selector-configuration.yaml"))
	require.NoError(t, err)
	file := h.path("/etc/kubernetes/konnectivity/configurations/egress-selector-configuration.yaml")
	here := strings.ReplaceAll(string(egress), "udsName: ", "udsName: "+h.root)
	require.NoError(t, os.WriteFile(file, []byte(here), 0o600))

	server := h.start("konnectivity-server", h.env.Binary("test-assets/proxy-server"), nil)
	apiserver := h.start("kube-apiserver", h.kubeAPIServer(), map[string]string{"etcd-servers": url})
	h.serves("konnectivity-server", server)
	h.serves("kube-apiserver", apiserver)
	h.works(kamajiAdmin)
	h.reachesKubelets()

	keys, err := etcd.Get(t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	require.NotEmpty(t, keys.Kvs)
	for _, kv := range keys.Kvs {
		assert.Contains(t, string(kv.Key), prefix)
	}
	stops(t, apiserver, syscall.SIGTERM)
}

// TestKamajiWithKine has a DataStore that is no etcd.
func TestKamajiWithKine(t *testing.T) {
	h := newHost(t, "kamaji-kine.yaml")
	h.pki(kamajiPKI, h.endpoint())
	const parameters = "?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate"
	h.kine(map[string]string{"endpoint": "sqlite://" + filepath.Join(h.env.Dir, "state.db") + parameters})
	apiserver := h.start("kube-apiserver", h.kubeAPIServer(), nil)
	h.serves("kube-apiserver", apiserver)
	h.works(kamajiAdmin)
	stops(t, apiserver, syscall.SIGTERM)
}

// stops stops a process as the tool does.
func stops(t *testing.T, process *framework.Process, by os.Signal) {
	t.Helper()
	require.NoError(t, process.Signal(by))
	<-process.Done()
	assert.Zero(t, process.ExitCode())
}

// reachesKubelets reads the log of a pod through the server of konnectivity, which asks the API server about the token of the agent.
func (h *host) reachesKubelets() {
	h.t.Helper()
	t, client := h.t, h.client(kamajiAdmin)
	kubelet := framework.NewKubelet(func(err error) { t.Log("kubelet:", err) })
	t.Cleanup(kubelet.Close)
	require.NoError(t, kubelet.AddNode(t.Context(), client, "node"))
	h.kubectl(kamajiAdmin, "create", "serviceaccount", "default")
	_, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	read := func(ctx context.Context) ([]byte, error) {
		return client.CoreV1().Pods("default").GetLogs("pod", &corev1.PodLogOptions{}).DoRaw(ctx)
	}
	_, err = read(t.Context())
	require.Error(t, err, "there is a way to the kubelet without an agent")

	h.agent()
	go func() {
		kubelet.LogLines <- "through the tunnel"
		close(kubelet.LogLines)
	}()
	framework.Eventually(t, "the log comes through the agent", func(ctx context.Context) error {
		log, err := read(ctx)
		if err == nil && string(log) != "through the tunnel\n" {
			err = fmt.Errorf("the log is %q", log)
		}
		return err
	})
}

// agent starts an agent of konnectivity, with the ServiceAccount and the token that Kamaji gives to agents.
func (h *host) agent() {
	h.t.Helper()
	h.kubectl(kamajiAdmin, "create", "clusterrolebinding", "system:konnectivity-server", "--clusterrole=system:auth-delegator",
		"--user=system:konnectivity-server")
	h.kubectl(kamajiAdmin, "--namespace=kube-system", "create", "serviceaccount", "konnectivity-agent")
	token := filepath.Join(h.env.Dir, "konnectivity-agent-token")
	require.NoError(h.t, os.WriteFile(token, []byte(h.kubectl(kamajiAdmin,
		"--namespace=kube-system", "create", "token", "konnectivity-agent", "--audience=system:konnectivity-server")), 0o600))
	agent, err := h.env.Start(framework.Command{
		Name: "konnectivity-agent", Path: h.env.Binary("test-assets/proxy-agent"),
		Args: []string{
			"--ca-cert=" + h.path(kamajiPKI+"/ca.crt"), "--proxy-server-host=127.0.0.1", fmt.Sprintf("--proxy-server-port=%d", h.port(8132)),
			fmt.Sprintf("--admin-server-port=%d", freePort(h.t)), fmt.Sprintf("--health-server-port=%d", freePort(h.t)),
			"--service-account-token-path=" + token,
		},
	})
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = agent.Signal(os.Kill) }) // SIGTERM does not end it while its server is away
}
