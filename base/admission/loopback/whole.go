// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"errors"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
)

// Whole returns the configuration of the aggregator's own clients for admission. They see the API groups of all services through the
// aggregator itself, whose loopback configuration is self. Until the aggregator knows all API groups, they get 503 instead of an incomplete
// list: admission would take a missing kind for one that does not exist, and remember it.
func Whole(self *rest.Config, knowsGroups func() bool) (*rest.Config, error) {
	transport, host, err := reach(self)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(self)
	// As in a Split, the transport ignores the host of the configuration.
	config.Wrap(func(http.RoundTripper) http.RoundTripper {
		return &whole{self: transport, host: host, knowsGroups: knowsGroups}
	})
	return config, nil
}

// whole is the transport.
type whole struct {
	self        http.RoundTripper
	host        *url.URL
	knowsGroups func() bool
}

// RoundTrip implements http.RoundTripper.
func (w *whole) RoundTrip(req *http.Request) (*http.Response, error) {
	if is := parse(req.URL.Path); is.document && !is.openAPI && !w.knowsGroups() {
		return unavailable(req, errors.New("the API groups are not all known yet")), nil
	}
	response, err := sendWithin(headerTimeout(req), w.self, at(w.host, req))
	if err != nil {
		return nil, err
	}
	return withoutRetry(response), nil
}
