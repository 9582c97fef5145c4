// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// leaveInterval is the shortest time between ending the watches of a replica and ending them again. New watches cost a replica in trouble
// even more.
const leaveInterval = 5 * time.Second

var errLeft = errors.New("another replica is followed")

// connected has the transports to replicas, by host:port.
type connected struct {
	newTransport func() *http.Transport

	mu     sync.Mutex
	byHost map[string]*replica
}

// replica is the transport to one replica, and its state.
type replica struct {
	transport *http.Transport
	// watches are the running watches, with functions that end them.
	watches map[*http.Request]context.CancelCauseFunc
	// ready is true if the last probe passed, unhealthy if several in a row failed.
	ready, unhealthy bool
	// left is when the link last ended its watches.
	left time.Time
}

// at returns a replica. The caller holds the lock.
func (r *connected) at(host string) *replica {
	if r.byHost[host] == nil {
		r.byHost[host] = &replica{transport: r.newTransport(), watches: map[*http.Request]context.CancelCauseFunc{}}
	}
	return r.byHost[host]
}

// RoundTrip implements http.RoundTripper.
func (r *connected) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	replica := r.at(req.URL.Host)
	transport := replica.transport
	if !req.URL.Query().Has("watch") {
		r.mu.Unlock()
		return transport.RoundTrip(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	replica.watches[req] = cancel
	r.mu.Unlock()
	end := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(replica.watches, req)
		cancel(nil)
	}
	response, err := transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	response.Body = &watched{ReadCloser: response.Body, ctx: ctx, end: end}
	return response, nil
}

// watched is the body of a watch. When the link leaves the replica, the watch ends as if the replica had ended it. So its reader starts a
// new watch elsewhere at once.
type watched struct {
	io.ReadCloser
	ctx context.Context
	end func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && errors.Is(context.Cause(w.ctx), errLeft) {
		err = io.EOF
	}
	return n, err
}

func (w *watched) Close() error {
	defer w.end()
	return w.ReadCloser.Close()
}

// leave ends the watches at a replica, and makes later requests open new connections. Behind a load balancer these may reach another
// replica. Other requests in flight continue.
func (r *connected) leave(host string, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	replica := r.at(host)
	if time.Since(replica.left) < leaveInterval {
		return
	}
	klog.InfoS("Leaving a replica", "replica", host, "reason", why, "watches", len(replica.watches))
	replica.left = time.Now()
	for _, end := range replica.watches {
		end(errLeft)
	}
	before := replica.transport
	replica.transport = r.newTransport()
	before.CloseIdleConnections()
}

// keep forgets all replicas but these hosts.
func (r *connected) keep(hosts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := map[string]*replica{}
	for _, host := range hosts {
		if replica := r.byHost[host]; replica != nil {
			kept[host] = replica
			delete(r.byHost, host)
		}
	}
	for _, gone := range r.byHost {
		gone.transport.CloseIdleConnections()
	}
	r.byHost = kept
}

// probed stores the result of a probe, and reports whether the replica has become healthy or unhealthy.
func (r *connected) probed(host string, ready, unhealthy bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	replica := r.at(host)
	was := replica.unhealthy
	replica.ready, replica.unhealthy = ready, unhealthy
	return was != unhealthy
}

func (r *connected) isUnhealthy(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byHost[host] != nil && r.byHost[host].unhealthy
}

// watches returns how many watches run at a replica.
func (r *connected) watches(host string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.at(host).watches)
}

// isReady reports whether a replica passed its last probe, which also proves that it has a certificate of the service.
func (r *connected) isReady(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byHost[host] != nil && r.byHost[host].ready
}
