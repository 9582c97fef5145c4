// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// retryInterval is the time between attempts while a service is away. It is short because informers, and so readiness, follow at once.
const retryInterval = 250 * time.Millisecond

// Until returns a transport that sends a request again until it is answered, its context ends, or it fails in a way that does not pass.
func Until(next http.RoundTripper, passes func(*http.Request, error) bool) http.RoundTripper {
	return &waiting{next: next, passes: passes}
}

type waiting struct {
	next   http.RoundTripper
	passes func(*http.Request, error) bool
	// fails is whether the last attempt failed. The log has when that changes.
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

// WrappedRoundTripper implements utilnet.RoundTripperWrapper, for those who look for what is below.
func (w *waiting) WrappedRoundTripper() http.RoundTripper { return w.next }

// renewBody gives a request that may have been sent already a fresh body, if it can have one.
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

// whileUnreachable waits as long as no replica of a service can be reached.
func whileUnreachable(_ *http.Request, err error) bool { return IsUnreachable(err) }

// WhileReading waits as long as a request without a body is not answered, whatever the reason.
func WhileReading(req *http.Request, _ error) bool { return req.Body == nil || req.Body == http.NoBody }
