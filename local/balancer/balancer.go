// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package balancer spreads TCP connections over servers. It does not look into them: all requests on one connection go to one server.
//
// The shared port of aggregators (services/aggregator/sharedport) does not replace it. There, the kernel decides, which does not know
// whether a listener is ready, so a frozen aggregator keeps its share of new connections: about 100 of 200, if it is one of two, and none
// behind the balancer (go test -v -run AFrozenServer ./local/balancer). The balancer asks, and tries another server if one does not accept.
package balancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	dialTimeout = 3 * time.Second
	// acceptRetry is the wait after a temporary error, such as too many open files.
	acceptRetry = 50 * time.Millisecond
)

// Balancer passes each connection that it accepts on to the next server.
type Balancer struct {
	listener *net.TCPListener
	dialer   net.Dialer

	mu sync.Mutex
	// ready servers get connections. The balancer tries unready ones if it can reach none of the ready ones.
	ready, unready []string
	turn           int
}

// Listen listens on an address, host:port. Connections wait until Serve.
func Listen(address string) (*Balancer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot balance connections: %w", err)
	}
	return &Balancer{listener: listener.(*net.TCPListener), dialer: net.Dialer{Timeout: dialTimeout}}, nil
}

// Port returns the port that it listens on.
func (b *Balancer) Port() int { return b.listener.Addr().(*net.TCPAddr).Port }

// SetServers sets the servers for new connections, host:port. The ready ones take turns. The others get connections only if
// no ready one can be reached. Existing connections stay where they are.
func (b *Balancer) SetServers(ready, unready []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready, b.unready = slices.Clone(ready), slices.Clone(unready)
}

// Serve passes connections on until ctx ends, and then closes all of them. Call it once.
func (b *Balancer) Serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = b.listener.Close() })()
	for ctx.Err() == nil {
		client, err := b.listener.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			select {
			case <-ctx.Done():
			case <-time.After(acceptRetry):
			}
		default:
			serving.Go(func() { b.serve(ctx, client) })
		}
	}
}

// Close stops listening. Serve does so too when it ends.
func (b *Balancer) Close() error { return b.listener.Close() }

// serve passes one connection on. Without a server it is closed.
func (b *Balancer) serve(ctx context.Context, client *net.TCPConn) {
	defer client.Close() //nolint:errcheck // all bytes were sent
	server := b.dial(ctx)
	if server == nil {
		return
	}
	defer server.Close() //nolint:errcheck // all bytes were sent
	defer context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})()
	var both sync.WaitGroup
	both.Go(func() { forward(server, client) })
	both.Go(func() { forward(client, server) })
	both.Wait()
}

// dial connects to the server whose turn it is, or to the first after it that can be reached.
func (b *Balancer) dial(ctx context.Context) *net.TCPConn {
	for _, address := range b.order() {
		if connection, err := b.dialer.DialContext(ctx, "tcp", address); err == nil {
			return connection.(*net.TCPConn)
		}
	}
	return nil
}

// order returns the servers in the order in which they are tried.
func (b *Balancer) order() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	return append(rotate(b.ready, b.turn), rotate(b.unready, b.turn)...)
}

func rotate(list []string, by int) []string {
	if len(list) == 0 {
		return nil
	}
	by %= len(list)
	return append(slices.Clone(list[by:]), list[:by]...)
}

// forward copies until from ends, and then closes to for writing only. If either connection breaks, forward resets both, so
// that no client takes the break for a regular end.
func forward(to, from *net.TCPConn) {
	_, err := io.Copy(to, from)
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		for _, connection := range []*net.TCPConn{to, from} {
			_ = connection.SetLinger(0)
			_ = connection.Close()
		}
	}
}
