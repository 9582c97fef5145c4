// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/tripod-k8s/tripod/test/framework"
)

// way is one of those in which a stream gets from a client to a container.
type way struct {
	name string
	// websocket is set if the client uses WebSockets, and toKubelet if the kubelet supports that, too.
	websocket, toKubelet bool
}

var ways = []way{
	{name: "SPDY"},
	{name: "WebSocket that the API server translates", websocket: true},
	{name: "WebSocket that the kubelet translates", websocket: true, toKubelet: true},
}

// executor returns a client that runs or attaches to a program.
func (w way) executor(t testing.TB, config *rest.Config, target *url.URL) remotecommand.Executor {
	t.Helper()
	if w.websocket {
		executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, target.String())
		require.NoError(t, err)
		return executor
	}
	executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, target)
	require.NoError(t, err)
	return executor
}

// dialer returns a client that forwards ports.
func (w way) dialer(t testing.TB, config *rest.Config, target *url.URL) httpstream.Dialer {
	t.Helper()
	if w.websocket {
		dialer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, config)
		require.NoError(t, err)
		return dialer
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	require.NoError(t, err)
	return spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
}

// pod is one on a node that it has for itself.
type pod struct {
	kubelet               *framework.Kubelet
	cluster               *framework.Cluster
	node, namespace, name string
}

// newPod makes a pod on a new node. The functions change its kubelet before.
func newPod(t testing.TB, cluster *framework.Cluster, w way, changes ...func(*framework.Kubelet)) *pod {
	t.Helper()
	kubelet := framework.NewKubelet(func(err error) { t.Log("kubelet:", err) })
	kubelet.WebSockets = w.toKubelet
	for _, change := range changes {
		change(kubelet)
	}
	return newPodOf(t, cluster, kubelet)
}

// newPodOf makes a pod on a new node of a kubelet.
func newPodOf(t testing.TB, cluster *framework.Cluster, kubelet *framework.Kubelet) *pod {
	t.Helper()
	t.Cleanup(kubelet.Close)
	p := &pod{
		kubelet: kubelet, cluster: cluster,
		node: framework.UniqueName("node"), namespace: framework.CreateNamespace(t, cluster), name: "pod",
	}
	client := kubeClient(t, cluster.Admin())
	require.NoError(t, p.kubelet.AddNode(t.Context(), client, p.node))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := client.CoreV1().ServiceAccounts(p.namespace).Create(t.Context(), account, metav1.CreateOptions{})
	require.NoError(t, err)
	created, err := client.CoreV1().Pods(p.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: map[string]string{"app": p.name}},
		Spec:       corev1.PodSpec{NodeName: p.node, Containers: []corev1.Container{{Name: "main", Image: "none", Stdin: true, TTY: true}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	created.Status.Phase = corev1.PodRunning
	_, err = client.CoreV1().Pods(p.namespace).UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
	require.NoError(t, err)
	return p
}

// withProgram gives containers a program called "program".
func withProgram(program framework.Program) func(*framework.Kubelet) {
	return func(k *framework.Kubelet) { k.Programs["program"] = program }
}

// url returns the URL of a subresource.
func (p *pod) url(t testing.TB, subresource string, options runtime.Object) *url.URL {
	t.Helper()
	return kubeClient(t, p.cluster.Admin()).CoreV1().RESTClient().Post().
		Namespace(p.namespace).Resource("pods").Name(p.name).SubResource(subresource).
		VersionedParams(options, scheme.ParameterCodec).URL()
}

// execURL returns the URL that runs a command with these streams.
func (p *pod) execURL(t testing.TB, streams remotecommand.StreamOptions, command ...string) *url.URL {
	t.Helper()
	return p.url(t, "exec", &corev1.PodExecOptions{
		Container: "main", Command: command, TTY: streams.Tty,
		Stdin: streams.Stdin != nil, Stdout: streams.Stdout != nil, Stderr: streams.Stderr != nil,
	})
}

// exec returns a client that runs a command with these streams.
func (p *pod) exec(t testing.TB, w way, streams remotecommand.StreamOptions, command ...string) remotecommand.Executor {
	t.Helper()
	return w.executor(t, p.cluster.Admin(), p.execURL(t, streams, command...))
}

// attach returns a client that attaches these streams.
func (p *pod) attach(t testing.TB, w way, streams remotecommand.StreamOptions) remotecommand.Executor {
	t.Helper()
	return w.executor(t, p.cluster.Admin(), p.url(t, "attach", &corev1.PodAttachOptions{
		Container: "main", TTY: streams.Tty,
		Stdin: streams.Stdin != nil, Stdout: streams.Stdout != nil, Stderr: streams.Stderr != nil,
	}))
}
