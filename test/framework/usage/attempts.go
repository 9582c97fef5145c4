// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"net/http"
)

// attempts records each request that failed. client-go repeats a request up to ten times if the answer has a Retry-After, as Tripod's 503
// has, so its callers would not notice.
type attempts struct {
	next   http.RoundTripper
	failed func(of string, err error)
}

func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(req)
	of := req.Method + " " + req.URL.RequestURI()
	switch {
	case req.Context().Err() != nil: // the client has ended
	case err != nil:
		a.failed(of, err)
	case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= http.StatusInternalServerError:
		a.failed(of, fmt.Errorf("%s", answer.Status))
	}
	return answer, err
}

// WrappedRoundTripper is for client-go, which looks for a transport that it can close.
func (a *attempts) WrappedRoundTripper() http.RoundTripper { return a.next }
