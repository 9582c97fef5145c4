// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sharedport lets several aggregators of a host accept connections at one port. The kernel spreads new connections over those that
// listen (SO_REUSEPORT). Each listens only from when it is ready until it is about to stop, because the kernel does not ask whether a
// listener is ready.
package sharedport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// joinInterval is the time between two attempts to listen. A program that does not share the port, such as kube-apiserver before it is
// replaced, may still listen there.
const joinInterval = 200 * time.Millisecond

// Port is a listener of an aggregator's own that also accepts the connections at a shared port.
type Port struct {
	net.Listener
	address  string
	accepted chan accepted
	closed   context.Context
	close    context.CancelFunc

	mu sync.Mutex
	// shared is nil while connections at the shared port go to others.
	shared net.Listener
	left   bool
}

type accepted struct {
	conn net.Conn
	err  error
}

// New returns a listener that accepts connections of own. At the shared address, host:port, it listens from [Port.Join] to [Port.Leave].
func New(own net.Listener, address string) *Port {
	p := &Port{Listener: own, address: address, accepted: make(chan accepted)}
	p.closed, p.close = context.WithCancel(context.Background())
	go p.accept(own)
	return p
}

// accept passes on what a listener accepts, until it is closed.
func (p *Port) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case p.accepted <- accepted{conn, err}:
		case <-p.closed.Done():
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
	}
}

// Accept implements net.Listener.
func (p *Port) Accept() (net.Conn, error) {
	select {
	case next := <-p.accepted:
		return next.conn, next.err
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Port) Close() error {
	p.Leave()
	p.close()
	return p.Listener.Close()
}

// Join listens at the shared port, and returns when it does. It waits while a program has the port that does not share it, unless the
// context ends.
func (p *Port) Join(ctx context.Context) error {
	logged := false
	return wait.PollUntilContextCancel(ctx, joinInterval, true, func(ctx context.Context) (bool, error) {
		err := p.listen(ctx)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err == nil, err
		}
		if !logged {
			klog.InfoS("Waiting for a port that another program has and does not share", "address", p.address)
			logged = true
		}
		return false, nil
	})
}

// Joined returns an error while connections at the shared port do not come here.
func (p *Port) Joined() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared == nil {
		return fmt.Errorf("does not listen at %s", p.address)
	}
	return nil
}

// Leave stops listening at the shared port, for good. Connections go on. The kernel passes new ones to the other aggregators, and with
// net.ipv4.tcp_migrate_req also those that wait to be accepted.
func (p *Port) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	if p.shared != nil {
		_ = p.shared.Close()
		p.shared = nil
	}
}

func (p *Port) listen(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left || p.shared != nil {
		return nil
	}
	sharing := net.ListenConfig{Control: share}
	var err error
	if p.shared, err = sharing.Listen(ctx, "tcp", p.address); err != nil {
		p.shared = nil
		return fmt.Errorf("cannot listen at the shared address: %w", err)
	}
	go p.accept(p.shared)
	return nil
}

// share lets other sockets of the same user listen at the same port.
func share(_, _ string, socket syscall.RawConn) error {
	var err error
	if controlled := socket.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}); controlled != nil {
		return controlled
	}
	return err
}
