// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/broadcast"
)

const (
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 5 * time.Second
	// dialTimeout is how long a new connection waits for a pod.
	dialTimeout = time.Minute
)

// Tunnel is a port of 127.0.0.1 that leads to an aggregator of a release.
type Tunnel struct {
	release  *Release
	config   *rest.Config
	client   kubernetes.Interface
	progress func(string)
	listener net.Listener
	pods     *pods

	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	current *forward
	// changed wakes connections that wait for another current forward.
	changed broadcast.Broadcast
}

// Options are those of [Open].
type Options struct {
	// Config is of a client of the host cluster, in which the release runs.
	Config *rest.Config
	Client kubernetes.Interface
	// Port is one of 127.0.0.1; 0 means any that is free.
	Port int
	// Progress is called with a line about each change of the tunnel.
	Progress func(line string)
}

// Open returns when the tunnel leads to a pod, or with the reason why it cannot. [Tunnel.Close] ends it.
func Open(ctx context.Context, r *Release, o Options) (_ *Tunnel, err error) {
	t := &Tunnel{release: r, config: o.Config, client: o.Client, progress: o.Progress}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port))
	if t.listener, err = net.Listen("tcp", address); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("the port %d of 127.0.0.1 is in use: choose another with --port, or 0 for any that is free", o.Port)
		}
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.cancel = cancel
	defer context.AfterFunc(ctx, cancel)() // until the tunnel is open
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	if t.pods, err = followPods(running, o.Client, r); err != nil {
		return nil, err
	}
	t.running.Go(func() {
		<-running.Done()
		t.pods.informers.Shutdown()
	})
	first, err := t.connect(running, "")
	if err != nil {
		return nil, err
	}
	t.use(first)
	t.running.Go(func() { t.follow(running, first) })
	t.running.Go(func() { t.accept(running) })
	return t, nil
}

// Pod returns the name of the pod that new connections go to, or an empty string while there is none.
func (t *Tunnel) Pod() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == nil {
		return ""
	}
	return t.current.pod
}

// Server returns the URL of the API.
func (t *Tunnel) Server() string { return "https://" + t.listener.Addr().String() }

// Close ends the tunnel and its connections.
func (t *Tunnel) Close() {
	t.cancel()
	t.listener.Close() //nolint:errcheck // nothing is lost
	t.running.Wait()
}

// connect returns a forward to the first ready pod that it reaches. It tries the one with the name avoid last.
func (t *Tunnel) connect(ctx context.Context, avoid string) (*forward, error) {
	ready := t.pods.ready(avoid)
	if len(ready) == 0 {
		return nil, fmt.Errorf("the release %s has no ready aggregator (%d pods are not ready): kubectl -n %s get pods -l %s says more",
			t.release.Name, t.pods.count(), t.release.Namespace, t.release.selector())
	}
	var all error
	for _, pod := range ready {
		f, err := openForward(ctx, t.config, t.client, pod)
		if err == nil {
			return f, nil
		}
		all = err // the last one stands for all: usually they are the same but for the name of the pod
		if ctx.Err() != nil {
			break
		}
	}
	return nil, all
}

// use makes a forward, or none, the one for new connections.
func (t *Tunnel) use(f *forward) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current = f
	if f != nil {
		t.running.Go(func() { <-f.ended })
	}
	t.changed.Send()
}

// follow keeps the tunnel connected until ctx ends.
func (t *Tunnel) follow(ctx context.Context, current *forward) {
	for ctx.Err() == nil {
		reason := t.untilLost(ctx, current)
		if ctx.Err() != nil {
			break
		}
		t.progress(fmt.Sprintf("The pod %s %s", current.pod, reason))
		t.use(nil)
		current.retire()
		if next := t.reconnect(ctx, current.pod); next != nil {
			t.progress("Connected through the pod " + next.pod)
			t.use(next)
			current = next
		}
	}
	t.use(nil)
	current.retire()
}

// untilLost returns why a forward is no longer to be used.
func (t *Tunnel) untilLost(ctx context.Context, f *forward) string {
	for {
		if !t.pods.serves(f.pod) {
			return "is no longer ready"
		}
		select {
		case <-f.ended:
			return "has closed the connection"
		case <-t.pods.changed:
		case <-ctx.Done():
			return ""
		}
	}
}

// reconnect returns a forward to another pod, or nil when ctx ends.
func (t *Tunnel) reconnect(ctx context.Context, avoid string) *forward {
	shown, backoff := "", firstBackoff
	for ctx.Err() == nil {
		f, err := t.connect(ctx, avoid)
		if err == nil {
			return f
		}
		if ctx.Err() == nil && shown != err.Error() {
			shown = err.Error()
			t.progress("Trying again: " + shown)
		}
		t.pods.wait(ctx, backoff)
		backoff = min(2*backoff, maxBackoff)
	}
	return nil
}

// accept serves connections until the listener closes, and returns when they have ended.
func (t *Tunnel) accept(ctx context.Context) {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := t.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			t.progress("Cannot accept a connection: " + err.Error())
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			continue
		}
		serving.Go(func() { t.serve(ctx, conn.(*net.TCPConn)) })
	}
}

// serve passes a connection on to a pod.
func (t *Tunnel) serve(ctx context.Context, client *net.TCPConn) {
	defer client.Close() //nolint:errcheck // both ends are done with it
	pod, f := t.dial(ctx)
	if pod == nil {
		return
	}
	defer f.hangUp(pod)
	defer context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = pod.Close()
	})()
	var copying sync.WaitGroup
	copying.Go(func() { pass(pod, client) })
	copying.Go(func() { pass(client, pod) })
	copying.Wait()
}

// pass copies what one end sends. Then it closes that direction, or both if it could not pass everything on.
func pass(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	_ = to.CloseWrite() // it may be closed
}

// dial returns a connection to the current pod. While there is none, it waits for one.
func (t *Tunnel) dial(ctx context.Context) (*net.TCPConn, *forward) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for {
		t.mu.Lock()
		f, changed := t.current, t.changed.Next()
		t.mu.Unlock()
		if f != nil {
			if conn, err := f.dial(ctx); err == nil {
				return conn, f
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil
		}
	}
}
