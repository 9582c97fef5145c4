// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Kubelet serves what an API server asks of a node. Commands that it runs, and ports that it forwards to, echo.
type Kubelet struct {
	// LogLines are the lines of every container's log, as they come.
	LogLines chan string

	server *httptest.Server
	failed func(error)
}

// NewKubelet returns a kubelet that calls failed with what goes wrong in it.
func NewKubelet(failed func(error)) *Kubelet {
	k := &Kubelet{LogLines: make(chan string), failed: failed}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/", k.exec)
	mux.HandleFunc("/portForward/", k.portForward)
	mux.HandleFunc("/containerLogs/", k.logs)
	k.server = httptest.NewTLSServer(mux)
	return k
}

// Close stops the kubelet.
func (k *Kubelet) Close() { k.server.Close() }

// AddNode makes a node on which it is the kubelet.
func (k *Kubelet) AddNode(ctx context.Context, client kubernetes.Interface, name string) error {
	_, portText, err := net.SplitHostPort(k.server.Listener.Addr().String())
	if err != nil {
		return err
	}
	port, err := strconv.ParseInt(portText, 10, 32)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot make a node: %w", err)
	}
	return nil
}

// streams accepts the streams of a connection, until it is closed.
func (k *Kubelet) streams(w http.ResponseWriter, req *http.Request, protocol string) (<-chan httpstream.Stream, httpstream.Connection) {
	if _, err := httpstream.Handshake(req, w, []string{protocol}); err != nil {
		k.failed(err)
		return nil, nil
	}
	streams := make(chan httpstream.Stream, 8)
	return streams, spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(stream httpstream.Stream, _ <-chan struct{}) error {
		streams <- stream
		return nil
	})
}

// exec echoes from stdin to stdout, and exits with 0 at the end of stdin.
func (k *Kubelet) exec(w http.ResponseWriter, req *http.Request) {
	accepted, connection := k.streams(w, req, "v4.channel.k8s.io")
	if connection == nil {
		return
	}
	defer connection.Close() //nolint:errcheck // the client has what it needs
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
		k.failed(err)
	}
	if err := json.NewEncoder(byType[corev1.StreamTypeError]).Encode(metav1.Status{Status: metav1.StatusSuccess}); err != nil {
		k.failed(err)
	}
}

// portForward echoes on every forwarded connection.
func (k *Kubelet) portForward(w http.ResponseWriter, req *http.Request) {
	accepted, connection := k.streams(w, req, "portforward.k8s.io")
	if connection == nil {
		return
	}
	defer connection.Close() //nolint:errcheck // it is closed already, or of no use
	var echoing sync.WaitGroup
	defer echoing.Wait()
	for {
		select {
		case stream := <-accepted:
			echoing.Go(func() {
				defer stream.Close() //nolint:errcheck // the client may have gone away
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
func (k *Kubelet) logs(w http.ResponseWriter, req *http.Request) {
	w.(http.Flusher).Flush()
	for {
		select {
		case line, ok := <-k.LogLines:
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
