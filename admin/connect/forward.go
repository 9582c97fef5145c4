// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// openTimeout is how long the host cluster may take to connect to a pod.
const openTimeout = 20 * time.Second

// portName is the name of the port of the API in the chart's pods.
const portName = "https"

// forward leads from a port of 127.0.0.1 to a port of one pod.
type forward struct {
	pod     string
	address string
	// ended is closed when it leads nowhere any more.
	ended chan struct{}

	stopping chan struct{}
	mu       sync.Mutex
	users    int
	retired  bool
}

// Dial returns a connection to a port of a pod, through the API server of its cluster.
func Dial(ctx context.Context, config *rest.Config, client kubernetes.Interface, namespace, pod string, port int32) (net.Conn, error) {
	about := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}}
	f, err := openForwardTo(ctx, config, client, about, port)
	if err != nil {
		return nil, err
	}
	defer f.retire() // it ends with its connection
	conn, err := f.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &onlyConn{TCPConn: conn, forward: f}, nil
}

// onlyConn is the connection of a forward that has no other.
type onlyConn struct {
	*net.TCPConn
	forward *forward
	closing sync.Once
}

// Close ends the forward, too.
func (c *onlyConn) Close() error {
	c.closing.Do(func() { c.forward.hangUp(c.TCPConn) })
	return nil
}

// openForward returns when the API in the pod can be reached.
func openForward(ctx context.Context, config *rest.Config, client kubernetes.Interface, pod *corev1.Pod) (*forward, error) {
	port := portOf(pod)
	if port == 0 {
		return nil, fmt.Errorf("the pod %s has no port %s", pod.Name, portName)
	}
	return openForwardTo(ctx, config, client, pod, port)
}

// openForwardTo returns when the port can be reached.
func openForwardTo(ctx context.Context, config *rest.Config, client kubernetes.Interface, pod *corev1.Pod, port int32) (*forward, error) {
	dialer, err := dialerTo(config, client, pod)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, fmt.Errorf("no answer within %s", openTimeout))
	defer cancel()
	f := &forward{pod: pod.Name, ended: make(chan struct{}), stopping: make(chan struct{})}
	ready, failed := make(chan struct{}), make(chan error, 1)
	ports := []string{fmt.Sprintf("0:%d", port)}
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, ports, f.stopping, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(f.ended)
		failed <- forwarder.ForwardPorts()
	}()
	select {
	case <-ready:
	case err := <-failed:
		return nil, fmt.Errorf("cannot forward a port of the pod %s: %w", pod.Name, err)
	case <-ctx.Done():
		close(f.stopping) // ForwardPorts ends when its dialer does, which knows no context
		return nil, fmt.Errorf("cannot forward a port of the pod %s: %w", pod.Name, context.Cause(ctx))
	}
	local, err := forwarder.GetPorts()
	if err != nil {
		f.retire()
		return nil, err
	}
	f.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(local[0].Local)))
	return f, nil
}

func portOf(pod *corev1.Pod) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == portName {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// dialerTo returns a client that prefers a WebSocket, as kubectl does. It takes SPDY if the API server or a proxy before it does not
// upgrade to a WebSocket, and if the user may create pods/portforward only: a WebSocket begins with GET.
func dialerTo(config *rest.Config, client kubernetes.Interface, pod *corev1.Pod) (httpstream.Dialer, error) {
	to := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	overSPDY := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
	overWebSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(overWebSocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// dial returns a connection to the pod. Close it with hangUp.
func (f *forward) dial(ctx context.Context) (*net.TCPConn, error) {
	f.mu.Lock()
	if f.retired {
		f.mu.Unlock()
		return nil, net.ErrClosed
	}
	f.users++
	f.mu.Unlock()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", f.address)
	if err != nil {
		f.release()
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func (f *forward) hangUp(conn net.Conn) {
	conn.Close() //nolint:errcheck // both ends are done with it
	f.release()
}

func (f *forward) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users--
	if f.retired && f.users == 0 {
		close(f.stopping)
	}
}

// retire ends the forward when its last connection has ended. It takes no new ones.
func (f *forward) retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.retired {
		return
	}
	f.retired = true
	if f.users == 0 {
		close(f.stopping)
	}
}
