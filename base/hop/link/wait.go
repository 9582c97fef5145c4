// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// retryInterval is the time between attempts while a service is away. It is short because informers wait for the answer, and readiness
// waits for informers.
const retryInterval = 250 * time.Millisecond

// Until returns a transport that retries a request until an answer arrives, its context ends, or passes returns false for the error.
func Until(next http.RoundTripper, passes func(*http.Request, error) bool) http.RoundTripper {
	return &waiting{next: next, passes: passes}
}

type waiting struct {
	next   http.RoundTripper
	passes func(*http.Request, error) bool
	// fails is true if the last attempt failed. The transport logs each change.
	fails atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (w *waiting) RoundTrip(req *http.Request) (*http.Response, error) {
	attempt := req
	for {
		response, err := w.next.RoundTrip(attempt)
		w.note(req, err)
		if err == nil || req.Context().Err() != nil || !w.passes(req, err) {
			return response, err
		}
		select {
		case <-req.Context().Done():
			return nil, err
		case <-time.After(retryInterval):
		}
		attempt = req.Clone(req.Context())
		if err := renewBody(attempt); err != nil {
			return nil, err
		}
	}
}

func (w *waiting) note(req *http.Request, err error) {
	switch {
	case err == nil:
		if w.fails.Swap(false) {
			klog.InfoS("Requests are answered again", "host", req.URL.Host)
		}
	case req.Context().Err() == nil && !w.fails.Swap(true):
		klog.InfoS("A request is not answered, trying again", "host", req.URL.Host, "path", req.URL.Path, "err", err)
	}
}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper, for callers that look for the inner transport.
func (w *waiting) WrappedRoundTripper() http.RoundTripper { return w.next }

// renewBody gives a request a fresh body, if it has one and can get one, because the first may have been sent already.
func renewBody(req *http.Request) error {
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err == nil {
		req.Body = body
	}
	return err
}

// whileUnreachable retries while no replica of a service can be reached.
func whileUnreachable(_ *http.Request, err error) bool { return IsUnreachable(err) }

// WhileReading retries a request without a body until it gets an answer, for whatever reason it failed.
func WhileReading(req *http.Request, _ error) bool { return req.Body == nil || req.Body == http.NoBody }
