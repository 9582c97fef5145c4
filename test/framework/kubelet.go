// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	apiserverproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// Kubelet serves what an API server asks of a node, as kubelets do. A kubelet's own handlers pass streams on to a container runtime. The
// fields are what runs in the containers. Do not change them once a node exists.
type Kubelet struct {
	// LogLines are the lines of every container's log, as they arrive.
	LogLines chan string
	// Programs are the commands in the containers: cat, and what a test adds.
	Programs map[string]Program
	// Main is the program that clients attach to: cat, or that of a test.
	Main Program
	// WebSockets is set if the kubelet understands WebSockets (the gate ExtendWebSocketsToKubelet) and a node announces that. Otherwise the API
	// server translates them.
	WebSockets bool
	// Asked, if not nil, is called for each request.
	Asked func(*http.Request)
	// Other, if not nil, answers all other requests.
	Other http.Handler

	server, runtime *httptest.Server
	// served and inside are the connections of the server and of the runtime behind it.
	served, inside connections
	failed         func(error)
}

// NewKubelet returns a kubelet that calls failed for its errors.
func NewKubelet(failed func(error)) *Kubelet {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("cannot listen for a kubelet: %v", err)) // as httptest does
	}
	return NewKubeletOn(listener, failed)
}

// NewKubeletOn returns a kubelet with a listener. Proxies do not connect to a loopback address.
func NewKubeletOn(listener net.Listener, failed func(error)) *Kubelet {
	k := &Kubelet{LogLines: make(chan string), Programs: map[string]Program{"cat": Cat}, Main: Cat, failed: failed}
	k.runtime = httptest.NewUnstartedServer(k.newRuntime())
	k.runtime.Listener = k.inside.of(k.runtime.Listener)
	k.runtime.Start()
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/", k.stream)
	mux.HandleFunc("/attach/", k.stream)
	mux.HandleFunc("/portForward/", k.stream)
	mux.HandleFunc("/containerLogs/", k.logs)
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		if k.Other == nil {
			http.NotFound(w, req)
			return
		}
		k.Other.ServeHTTP(w, req)
	})
	k.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if k.Asked != nil {
			k.Asked(req)
		}
		mux.ServeHTTP(w, req)
	}))
	_ = k.server.Listener.Close() // it has not been used
	k.server.Listener = k.served.of(listener)
	k.server.StartTLS()
	return k
}

// Close stops the kubelet and its containers.
func (k *Kubelet) Close() {
	k.CutOff()
	k.server.Close()
	k.runtime.Close()
}

// CutOff closes all connections, as if the node went down. Those that reach out of the node are the first: otherwise the kubelet could still report that
// a program has ended.
func (k *Kubelet) CutOff() {
	k.served.close()
	k.inside.close()
}

// AddNode creates a node with this kubelet.
func (k *Kubelet) AddNode(ctx context.Context, client kubernetes.Interface, name string) error {
	address := k.server.Listener.Addr().(*net.TCPAddr)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.IP.String()}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(address.Port)}},
		},
	}
	if k.WebSockets {
		node.Status.DeclaredFeatures = []string{"ExtendWebSocketsToKubelet"}
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("cannot make a node: %w", err)
	}
	return nil
}

// stream passes a connection on to the container runtime. As in a kubelet, a WebSocket becomes SPDY on the way.
func (k *Kubelet) stream(w http.ResponseWriter, req *http.Request) {
	location, err := url.Parse(k.runtime.URL)
	if err != nil {
		k.Error(w, req, err)
		return
	}
	location.Path, location.RawQuery = req.URL.Path, req.URL.RawQuery
	tunnel := utilproxy.NewUpgradeAwareHandler(location, nil, false, true, k)
	switch {
	case k.WebSockets && wsstream.IsWebSocketRequestWithStreamCloseProtocol(req):
		options, err := remotecommand.NewOptions(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		apiserverproxy.NewStreamTranslatorHandler(location, nil, 0, apiserverproxy.Options{
			Stdin: options.Stdin, Stdout: options.Stdout, Stderr: options.Stderr, Tty: options.TTY,
		}).ServeHTTP(w, req)
	case k.WebSockets && wsstream.IsWebSocketRequestWithTunnelingProtocol(req):
		apiserverproxy.NewTunnelingHandler(tunnel).ServeHTTP(w, req)
	default:
		tunnel.ServeHTTP(w, req)
	}
}

// Error answers requests that the container runtime does not.
func (k *Kubelet) Error(w http.ResponseWriter, _ *http.Request, err error) {
	k.failed(err)
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// logs sends the lines as they arrive.
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
