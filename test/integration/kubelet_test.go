// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/tripod-k8s/tripod/test/framework"
)

// fakeKubelet serves what an API server asks of a node. Commands that it runs, and ports that it forwards to, echo.
type fakeKubelet struct {
	*httptest.Server
	t testing.TB
	// logLines are the lines of every container's log, as they come.
	logLines chan string
}

// newPod returns the names of a pod, and of its namespace, on a node with a kubelet of its own.
func newPod(t testing.TB) (kubelet *fakeKubelet, namespace, name string) {
	t.Helper()
	kubelet = &fakeKubelet{t: t, logLines: make(chan string)}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/", kubelet.exec)
	mux.HandleFunc("/portForward/", kubelet.portForward)
	mux.HandleFunc("/containerLogs/", kubelet.logs)
	kubelet.Server = httptest.NewTLSServer(mux)
	t.Cleanup(kubelet.Close)

	ctx, client := t.Context(), kubeClient(t, cluster.Admin()).CoreV1()
	_, portText, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	port, err := strconv.Atoi(must(t, portText, err))
	must(t, port, err)
	node, err := client.Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: framework.UniqueName("node")},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
		},
	}, metav1.CreateOptions{})
	must(t, node, err)
	namespace = createNamespace(t)
	account, err := client.ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	must(t, account, err)
	pod, err := client.Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}, metav1.CreateOptions{})
	return kubelet, namespace, must(t, pod, err).Name
}

// streams accepts the streams of a connection, until it is closed.
func (k *fakeKubelet) streams(w http.ResponseWriter, req *http.Request, protocol string) (<-chan httpstream.Stream, httpstream.Connection) {
	if _, err := httpstream.Handshake(req, w, []string{protocol}); err != nil {
		k.t.Error(err)
		return nil, nil
	}
	streams := make(chan httpstream.Stream, 8)
	return streams, spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(stream httpstream.Stream, _ <-chan struct{}) error {
		streams <- stream
		return nil
	})
}

// exec echoes from stdin to stdout, and exits with 0 at the end of stdin.
func (k *fakeKubelet) exec(w http.ResponseWriter, req *http.Request) {
	accepted, connection := k.streams(w, req, "v4.channel.k8s.io")
	if connection == nil {
		return
	}
	defer closing(connection)
	byType := map[string]httpstream.Stream{}
	for len(byType) < 3 { // error, stdin, stdout
		select {
		case stream := <-accepted:
			byType[stream.Headers().Get(corev1.StreamType)] = stream
		case <-connection.CloseChan():
			return
		}
	}
	fmt.Fprintf(byType[corev1.StreamTypeStdout], "%s: ", req.URL.Query()["command"])
	if _, err := io.Copy(byType[corev1.StreamTypeStdout], byType[corev1.StreamTypeStdin]); err != nil {
		k.t.Error(err)
	}
	if err := json.NewEncoder(byType[corev1.StreamTypeError]).Encode(metav1.Status{Status: metav1.StatusSuccess}); err != nil {
		k.t.Error(err)
	}
}

// portForward echoes on every forwarded connection.
func (k *fakeKubelet) portForward(w http.ResponseWriter, req *http.Request) {
	accepted, connection := k.streams(w, req, "portforward.k8s.io")
	if connection == nil {
		return
	}
	defer closing(connection)
	var echoing sync.WaitGroup
	defer echoing.Wait()
	for {
		select {
		case stream := <-accepted:
			echoing.Go(func() {
				defer closing(stream)
				if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
					io.Copy(stream, stream) //nolint:errcheck // the client may go away
				}
			})
		case <-connection.CloseChan():
			return
		}
	}
}

// logs sends the lines as they come.
func (k *fakeKubelet) logs(w http.ResponseWriter, req *http.Request) {
	w.(http.Flusher).Flush()
	for {
		select {
		case line, ok := <-k.logLines:
			if !ok {
				return
			}
			fmt.Fprintln(w, line)
			w.(http.Flusher).Flush()
		case <-req.Context().Done():
			return
		}
	}
}
