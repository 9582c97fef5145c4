// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// Server is the API server behind an APIService. Like the backend inside, it is an http.RoundTripper.
type Server struct {
	name    string
	trust   *connections.Trust
	backend *upstream.Backend
	// forgotten is closed when no request can reach the server any more.
	forgotten chan struct{}

	mu      sync.Mutex
	removed bool
	service apiregistrationv1.ServiceReference
	tls     tlsSettings
	// broken is the reason why no connection can be made.
	broken error
	// addresses are the endpoints. If there are none, problem says why.
	addresses []string
	problem   *Problem
	located   bool
}

// tlsSettings are the TLS settings of connections.
type tlsSettings struct {
	insecure            bool
	caBundle, cert, key []byte
	serverName          string
}

func (s *tlsSettings) equal(other *tlsSettings) bool {
	return s.insecure == other.insecure && s.serverName == other.serverName &&
		bytes.Equal(s.caBundle, other.caBundle) && bytes.Equal(s.cert, other.cert) && bytes.Equal(s.key, other.key)
}

// State is the state of a server.
type State struct {
	// Problem is nil if the server has endpoints.
	Problem  *Problem
	Replicas []upstream.Replica
}

func newServer(service *apiregistrationv1.APIService, dial connections.Dial) *Server {
	s := &Server{
		name:      service.Name,
		trust:     connections.NewFixedTrust(&tls.Config{MinVersion: tls.VersionTLS12}),
		forgotten: make(chan struct{}),
	}
	s.backend = upstream.NewAggregated(upstream.Aggregated{
		Name: service.Name, Trust: s.trust, Dial: dial, Path: discoveryPath(service), Sign: signCheck,
	})
	return s
}

// discoveryPath is the path of the document that the server of the APIService must have.
func discoveryPath(service *apiregistrationv1.APIService) string {
	if service.Spec.Group == "" {
		return "/api/" + service.Spec.Version
	}
	return "/apis/" + service.Spec.Group + "/" + service.Spec.Version
}

// signCheck sends a check as the user of kube-aggregator's own checks. Its group may always read the document.
func signCheck(req *http.Request) {
	transport.SetAuthProxyHeaders(req, "system:kube-aggregator", "", []string{user.SystemPrivilegedGroup}, nil)
}

func (s *Server) reference() apiregistrationv1.ServiceReference {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.service
}

// set updates the server from its APIService. cert and key are the aggregator's.
func (s *Server) set(service *apiregistrationv1.APIService, cert, key []byte) {
	config := remote.BuildTransportConfig(nil, cert, key, service)
	now := tlsSettings{
		insecure: config.TLS.Insecure, caBundle: config.TLS.CAData, cert: cert, key: key, serverName: config.TLS.ServerName,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.service = *service.Spec.Service
	if s.tls.equal(&now) {
		return
	}
	s.tls = now
	var trusted *tls.Config
	if trusted, s.broken = transport.TLSConfigFor(config); s.broken == nil {
		s.trust.Set(trusted)
	}
	for _, address := range s.addresses {
		s.backend.ProbeNow(address)
	}
}

// locate finds the endpoints, and reports whether they changed.
func (s *Server) locate(r *resolver) bool {
	addresses, problem := r.resolve(s.reference())
	s.mu.Lock()
	if s.removed {
		s.mu.Unlock()
		return false
	}
	if s.broken != nil {
		addresses, problem = nil, notResolved(s.broken)
	}
	changed := !s.located || !slices.Equal(s.addresses, addresses) || (s.problem == nil) != (problem == nil) ||
		(problem != nil && *problem != *s.problem)
	s.located, s.addresses, s.problem = true, addresses, problem
	s.mu.Unlock()
	s.backend.SetAddresses(addresses)
	return changed
}

// revive keeps a removed server whose APIService has come back.
func (s *Server) revive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = false
}

// finished reports whether the server was removed and has no requests in flight.
func (s *Server) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removed && s.backend.Finished()
}

// run checks the endpoints until the context ends or the directory forgets the server.
func (s *Server) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var backend sync.WaitGroup
	defer backend.Wait()
	backend.Go(func() { s.backend.Run(ctx) })
	select {
	case <-ctx.Done():
	case <-s.forgotten:
		stop()
	}
}

func (s *Server) remove() {
	s.mu.Lock()
	s.removed, s.located = true, false
	s.mu.Unlock()
	s.backend.SetAddresses(nil)
}

// state returns false until locate has run once.
func (s *Server) state() (State, bool) {
	s.mu.Lock()
	problem, located := s.problem, s.located
	s.mu.Unlock()
	return State{Problem: problem, Replicas: s.backend.Replicas()}, located
}

// Ready reports whether any endpoint passed its last check.
func (s *Server) Ready() bool {
	ready, _ := s.backend.Ready()
	return ready
}

// RoundTrip sends a request to an endpoint. If a retry is safe, it retries at another endpoint (upstream.Backend).
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	problem := s.problem
	s.mu.Unlock()
	if problem != nil {
		if req.Body != nil {
			_ = req.Body.Close() // every RoundTripper must do this
		}
		return nil, &upstream.UnreachableError{Backend: s.name, Failures: []string{problem.Message}}
	}
	return s.backend.RoundTrip(req)
}
