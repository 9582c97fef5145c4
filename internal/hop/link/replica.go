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

// leaveInterval is the least time between two times that the watches of one replica are ended: whoever is sick must not be asked more.
const leaveInterval = 5 * time.Second

var errLeft = errors.New("another replica is followed")

// connected has the connections to replicas, by host:port.
type connected struct {
	newTransport func() *http.Transport

	mu     sync.Mutex
	byHost map[string]*replica
}

// replica is what leads to one replica.
type replica struct {
	transport *http.Transport
	// watches are those that run, with how to end them.
	watches map[*http.Request]context.CancelCauseFunc
	// ready is whether it passed its last probe, and unwell whether it failed several.
	ready, unwell bool
	// left is when its watches were last ended.
	left time.Time
}

// at returns a replica. The lock is held.
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

// watched is the body of a watch. It ends as if the replica had ended it when the replica is left, so that its reader watches elsewhere at once.
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

// leave ends the watches at a replica, and has later requests make new connections: behind a load balancer these may lead elsewhere. Other
// requests go on.
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

// keep forgets replicas that are not among the hosts.
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

// probed notes what a probe found, and reports whether it is news that the replica is unwell, or is not.
func (r *connected) probed(host string, ready, unwell bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	replica := r.at(host)
	was := replica.unwell
	replica.ready, replica.unwell = ready, unwell
	return was != unwell
}

func (r *connected) isUnwell(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byHost[host] != nil && r.byHost[host].unwell
}

// watches returns how many watches of a replica run.
func (r *connected) watches(host string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.at(host).watches)
}

// isReady reports whether a replica passed its last probe. So it has the certificate of the service.
func (r *connected) isReady(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byHost[host] != nil && r.byHost[host].ready
}
