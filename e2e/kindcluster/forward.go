// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// The protocols in which clients get streams through an API server.
const (
	SPDY      = "SPDY"
	WebSocket = "WebSocket"
)

// Forward forwards a port of 127.0.0.1 to a port of a pod until stop is called. It returns the address of the former.
func (c *Cluster) Forward(ctx context.Context, protocol, namespace, pod string, port int) (address string, stop func(), err error) {
	stopping, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	to := c.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	forwarder, err := c.forwarder(protocol, to, port, stopping, ready)
	if err != nil {
		return "", nil, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return "", nil, errors.Join(fmt.Errorf("cannot forward a port of %s", pod), err)
	case <-ctx.Done():
		close(stopping)
		return "", nil, errors.Join(ctx.Err(), <-ended)
	}
	stop = func() {
		close(stopping)
		<-ended //nolint:errcheck // it ends because of stop
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		stop()
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
}

func (c *Cluster) forwarder(protocol string, to *url.URL, port int, stopping, ready chan struct{}) (*portforward.PortForwarder, error) {
	ports := []string{fmt.Sprintf("0:%d", port)}
	if protocol == WebSocket {
		dialer, err := portforward.NewSPDYOverWebsocketDialer(to, c.Config())
		if err != nil {
			return nil, err
		}
		return portforward.New(dialer, ports, stopping, ready, io.Discard, io.Discard)
	}
	transport, upgrader, err := spdy.RoundTripperFor(c.Config())
	if err != nil {
		return nil, err
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
	return portforward.New(dialer, ports, stopping, ready, io.Discard, io.Discard)
}
