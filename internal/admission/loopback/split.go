// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Split says where the requests of a service's own clients go.
type Split struct {
	// Self is the configuration of clients of the service itself.
	Self *rest.Config
	// Serves reports whether the service serves a group-version. It may change its mind while it runs.
	Serves func(schema.GroupVersion) bool
	// Direct returns how others than the service are reached that serve a group-version, or nil where that is by way of the
	// aggregator. It may be nil.
	Direct func(schema.GroupVersion) http.RoundTripper
	// Aggregator reaches the aggregator. Its errors are those of servicelink.
	Aggregator http.RoundTripper
	// OwnOpenAPI is set where clients need OpenAPI documents only of what the service itself serves.
	OwnOpenAPI bool
	// Kinds are those that admission knows by these clients. It may be nil.
	Kinds *Kinds
}

// Config returns the configuration of clients that see what all servers serve. It is that of Self in everything else.
func (s Split) Config() (*rest.Config, error) {
	self, host, err := reach(s.Self)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(s.Self)
	splits := &splitter{Split: s, self: self, host: host}
	if s.Kinds != nil {
		s.Kinds.split = splits
	}
	// What would connect to the host of the configuration is not used: of webhooks at kubernetes.default.svc that is
	// the name of the aggregator.
	config.Wrap(func(http.RoundTripper) http.RoundTripper { return splits })
	return config, nil
}

// reach returns how and where a service is reached by its loopback configuration.
func reach(self *rest.Config) (http.RoundTripper, *url.URL, error) {
	transport, err := rest.TransportFor(self)
	if err != nil {
		return nil, nil, fmt.Errorf("loopback client: %w", err)
	}
	host, err := url.Parse(self.Host)
	if err != nil || host.Host == "" {
		return nil, nil, fmt.Errorf("loopback client: %q is no URL", self.Host)
	}
	return transport, host, nil
}

// splitter is the transport.
type splitter struct {
	Split
	self http.RoundTripper
	host *url.URL
	// heard is set once the aggregator has answered.
	heard atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (s *splitter) RoundTrip(req *http.Request) (*http.Response, error) {
	is := parse(req.URL.Path)
	switch {
	case is.document:
		return s.sharedDocument(req, is.openAPI)
	case is.local || (is.versioned && s.Serves(is.groupVersion)):
		return s.toSelf(req)
	case is.versioned && s.Direct != nil:
		if direct := s.Direct(is.groupVersion); direct != nil {
			return direct.RoundTrip(asService(req))
		}
	}
	return s.toAggregator(req)
}

// sharedDocument answers a request for a document that describes all servers.
func (s *splitter) sharedDocument(req *http.Request, openAPI bool) (*http.Response, error) {
	if openAPI && s.OwnOpenAPI {
		return s.toSelf(req)
	}
	response, err := s.toAggregator(req)
	if err == nil && (response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNotModified) {
		s.heard.Store(true)
		return response, nil
	}
	if req.Context().Err() != nil {
		return response, err
	}
	if s.heard.Load() {
		return asAbsence(req, response), err
	}
	// Until the aggregator was heard, the own document is better than none: policies whose parameters are kinds of this service
	// must be in force, or this service might not start, and then the aggregator does not either.
	if err == nil {
		response.Body.Close() //nolint:errcheck // nobody reads it
	}
	return s.toSelf(req)
}

func (s *splitter) toSelf(req *http.Request) (*http.Response, error) {
	return s.self.RoundTrip(at(s.host, req))
}

// at returns a request addressed to a host.
func at(host *url.URL, req *http.Request) *http.Request {
	addressed := req.Clone(req.Context())
	addressed.URL.Scheme, addressed.URL.Host, addressed.Host = host.Scheme, host.Host, host.Host
	return addressed
}

func (s *splitter) toAggregator(req *http.Request) (*http.Response, error) {
	response, err := sendPatiently(s.Aggregator, asService(req), patience(req))
	if err != nil {
		return nil, err
	}
	return withoutRetry(response), nil
}

// withoutRetry takes away what clients go by that try again, up to ten times, while a user waits for admission.
func withoutRetry(response *http.Response) *http.Response {
	if response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests {
		response.Header.Del("Retry-After")
	}
	return response
}

// asAbsence returns 503 for an answer by which the aggregator refuses a service what every service may read: it does not know this one, as
// while certificates are exchanged. Taken literally it would deny what users ask for.
func asAbsence(req *http.Request, response *http.Response) *http.Response {
	if response == nil {
		return nil
	}
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		response.Body.Close() //nolint:errcheck // nobody reads it
		return unavailable(req, fmt.Errorf("the aggregator answers %s", http.StatusText(response.StatusCode)))
	}
	return response
}

// asService returns the request without the credentials of the loopback client, which are good for this server alone.
func asService(req *http.Request) *http.Request {
	other := req.Clone(req.Context())
	other.Header.Del("Authorization")
	return other
}
