// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"errors"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
)

// Whole returns the configuration of the aggregator's own clients for admission. They see what all servers serve by way of the
// aggregator itself, of which self is the loopback configuration. While it does not know all API groups, these clients get 503 in
// place of a list that is not complete: admission would take a kind that is missing for one that does not exist, and remember it.
func Whole(self *rest.Config, knowsGroups func() bool) (*rest.Config, error) {
	transport, host, err := reach(self)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(self)
	// As in a Split, the host of the configuration is not used.
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
	response, err := sendPatiently(w.self, at(w.host, req), patience(req))
	if err != nil {
		return nil, err
	}
	return withoutRetry(response), nil
}
