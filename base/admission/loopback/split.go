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
	// Serves reports whether the service serves a group-version. The answer may change while the service runs.
	Serves func(schema.GroupVersion) bool
	// Direct returns the transport to another service that serves a group-version, or nil if the request has to go to the aggregator.
	// Direct itself may be nil.
	Direct func(schema.GroupVersion) http.RoundTripper
	// Aggregator is the transport to the aggregator. It returns the errors of package link.
	Aggregator http.RoundTripper
	// OwnOpenAPI is set if clients need the OpenAPI documents of this service alone.
	OwnOpenAPI bool
	// Kinds follows the aggregator's discovery for admission. It may be nil.
	Kinds *Kinds
}

// Config returns a copy of Self for clients that see the API groups of all services.
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
	// The splitter ignores the host of the configuration. A webhook at kubernetes.default.svc replaces that host by the name of the
	// aggregator.
	config.Wrap(func(http.RoundTripper) http.RoundTripper { return splits })
	return config, nil
}

// reach returns the transport and the URL of a loopback configuration.
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
	// answered is set by the first answer of an aggregator.
	answered atomic.Bool
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

// sharedDocument answers a request for a document that describes all services.
func (s *splitter) sharedDocument(req *http.Request, openAPI bool) (*http.Response, error) {
	if openAPI && s.OwnOpenAPI {
		return s.toSelf(req)
	}
	response, err := s.toAggregator(req)
	if err == nil && (response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNotModified) {
		s.answered.Store(true)
		return response, nil
	}
	if req.Context().Err() != nil {
		return response, err
	}
	if s.answered.Load() {
		return asAbsence(req, response), err
	}
	// Before the aggregator's first answer, the service's own document is better than none. Policies with parameters of this service must
	// be in force, or the service might not start, and the aggregator would wait for it.
	if err == nil {
		response.Body.Close() //nolint:errcheck // it is not read
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
	response, err := sendWithin(headerTimeout(req), s.Aggregator, asService(req))
	if err != nil {
		return nil, err
	}
	return withoutRetry(response), nil
}

// withoutRetry removes Retry-After. client-go would retry up to ten times while a user waits for admission.
func withoutRetry(response *http.Response) *http.Response {
	if response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests {
		response.Header.Del("Retry-After")
	}
	return response
}

// asAbsence turns a refusal of the aggregator into 503. Every service may read discovery, so a refusal means that the aggregator does not
// know this service yet, for instance while certificates rotate. Admission would take it for a decision and deny what users ask for.
func asAbsence(req *http.Request, response *http.Response) *http.Response {
	if response == nil {
		return nil
	}
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		response.Body.Close() //nolint:errcheck // it is not read
		return unavailable(req, fmt.Errorf("the aggregator answers %s", http.StatusText(response.StatusCode)))
	}
	return response
}

// asService returns the request without the loopback client's token, which must not leave the process.
func asService(req *http.Request) *http.Request {
	other := req.Clone(req.Context())
	other.Header.Del("Authorization")
	return other
}
