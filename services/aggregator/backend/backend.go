// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backend knows the replicas of core and of extensions: which of them are ready, and how a
// request gets to one.
package backend

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/transport"
)

// Names of the two backends. They are also the names of the Services that APIServices of the
// service form refer to, in Namespace.
const (
	Core       = "core"
	Extensions = "extensions"

	// Namespace is the namespace that APIServices of the service form name.
	Namespace = "tripod-system"
)

// Identity is what the aggregator shows to its backends, and how it knows them.
type Identity struct {
	// CAFile signs the certificates of the backends.
	CAFile string
	// CertFile and KeyFile are the aggregator's own certificate.
	CertFile, KeyFile string
}

// Backend is a service with one or more replicas. It is an http.RoundTripper: a request for it
// needs only a path, and goes to a replica that is ready. A request that never left, because no
// connection could be made, goes to the next replica.
type Backend struct {
	name     string
	replicas []*replica
	// next counts requests, for round robin.
	next atomic.Uint64
	// wasReady is whether a replica was ever found ready.
	wasReady atomic.Bool

	mu          sync.Mutex
	subscribers []func()
}

// New returns the backend of that name with a replica at each of the URLs.
func New(name string, servers []string, identity Identity) (*Backend, error) {
	b := &Backend{name: name}
	for _, server := range servers {
		u, err := url.Parse(server)
		if err != nil {
			return nil, fmt.Errorf("replica of %s: %w", name, err)
		}
		r := &replica{host: u.Host}
		r.state.Store(&replicaState{message: "not reached yet"})
		if r.multiplexed, err = newTransport(name, identity, "h2", "http/1.1"); err != nil {
			return nil, err
		}
		if r.separate, err = newTransport(name, identity, "http/1.1"); err != nil {
			return nil, err
		}
		b.replicas = append(b.replicas, r)
	}
	return b, nil
}

// newTransport returns a transport that verifies the backend by name and presents the aggregator's
// certificate. Files are read again when they change; the CA's only where ClientsAllowCARotation is on.
func newTransport(name string, identity Identity, protocols ...string) (http.RoundTripper, error) {
	rt, err := transport.New(&transport.Config{
		TLS: transport.TLSConfig{
			CAFile:     identity.CAFile,
			CertFile:   identity.CertFile,
			KeyFile:    identity.KeyFile,
			ServerName: name + "." + Namespace + ".svc",
			NextProtos: protocols,
		},
		// The client's Accept-Encoding is the one that counts.
		DisableCompression: true,
		Proxy:              func(*http.Request) (*url.URL, error) { return nil, nil },
		DialHolder:         &transport.DialHolder{Dial: (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext},
	})
	if err != nil {
		return nil, fmt.Errorf("transport to %s: %w", name, err)
	}
	return rt, nil
}

// dialTimeout bounds the time that a request waits for a replica whose host does not answer.
const dialTimeout = 3 * time.Second

// Name returns the name of the backend.
func (b *Backend) Name() string { return b.name }

// RoundTrip sends the request to a replica.
func (b *Backend) RoundTrip(req *http.Request) (*http.Response, error) {
	order := b.order()
	if req.Body == nil || req.Body == http.NoBody {
		return b.try(req, order)
	}
	body := req.Body
	defer body.Close() //nolint:errcheck // a request's body has no error that matters here
	req = req.Clone(req.Context())
	// A transport closes the body even when it could not connect; the next replica still needs it.
	req.Body = unclosed{body}
	return b.try(req, order)
}

func (b *Backend) try(req *http.Request, order []*replica) (*http.Response, error) {
	var failures []string
	for _, r := range order {
		resp, err := r.roundTrip(req)
		if err == nil {
			return resp, nil
		}
		if !NeverLeft(err) || req.Context().Err() != nil {
			return nil, err
		}
		failures = append(failures, err.Error())
	}
	return nil, &UnreachableError{Backend: b.name, Failures: failures}
}

// UnreachableError says that no replica of a backend could be connected to. No byte of the request
// was sent.
type UnreachableError struct {
	Backend  string
	Failures []string
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no replica of %s can be reached: %s", e.Backend, strings.Join(e.Failures, "; "))
}

// NeverLeft reports whether a request failed before any byte of it was sent: no connection could be made.
func NeverLeft(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// order returns the replicas in the order in which to try them: round robin over those that are
// ready, then the others, because a check can be wrong.
func (b *Backend) order() []*replica {
	if len(b.replicas) == 1 {
		return b.replicas
	}
	start := int(b.next.Add(1) % uint64(len(b.replicas)))
	order := make([]*replica, 0, len(b.replicas))
	for _, wantReady := range []bool{true, false} {
		for i := range b.replicas {
			r := b.replicas[(start+i)%len(b.replicas)]
			if r.state.Load().ready == wantReady {
				order = append(order, r)
			}
		}
	}
	return order
}

type unclosed struct {
	body interface{ Read([]byte) (int, error) }
}

func (u unclosed) Read(p []byte) (int, error) { return u.body.Read(p) }
func (unclosed) Close() error                 { return nil }
