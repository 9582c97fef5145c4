// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// failover sends a request to one of the servers of a link. If it cannot connect, it tries the next server. A read also goes to the next
// server if the connection breaks before the answer. failover never sends any other request twice if a server may have received it.
//
// The error is an unreachableError if failover cannot connect to any server.
type failover struct {
	link *Link
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f *failover) RoundTrip(req *http.Request) (*http.Response, error) {
	unreachable, first := errNowhere, f.link.current.Load()
	for i, server := range f.link.inOrder() {
		redirected, err := requestTo(req, server, i > 0)
		if err != nil {
			return nil, err
		}
		response, err := f.next.RoundTrip(redirected)
		if err == nil {
			f.link.noteReached(server, first)
			f.link.judge(server, req, response)
			return response, nil
		}
		if errors.Is(context.Cause(req.Context()), ErrSilent) {
			f.link.leave(server)
		}
		if req.Context().Err() != nil || !mayRepeat(req, err) {
			return nil, err
		}
		unreachable = err
	}
	if !neverSent(unreachable) && !errors.Is(unreachable, errNowhere) {
		return nil, unreachable // do not wait for a server that accepts connections
	}
	f.link.noteAway(unreachable)
	return nil, &unreachableError{service: f.link.service, cause: unreachable}
}

// ErrSilent is the cause of a context that ends because its request got no answer for too long. The next request goes to another server.
var ErrSilent = errors.New("it does not answer")

// errNowhere is the reason why a service without known servers cannot be reached.
var errNowhere = errors.New("it is not known where it is")

// WrappedRoundTripper implements utilnet.RoundTripperWrapper, for callers that look for the inner transport.
func (f *failover) WrappedRoundTripper() http.RoundTripper {
	return f.next
}

// requestTo returns req addressed to server. If a server may have read the body before (again), the request gets a fresh body.
func requestTo(req *http.Request, server string, again bool) (*http.Request, error) {
	redirected := req.Clone(req.Context())
	redirected.URL.Scheme = "https"
	redirected.URL.Host = server
	redirected.Host = server
	if !again {
		return redirected, nil
	}
	return redirected, renewBody(redirected)
}

// mayRepeat reports whether a failed request may go to another server. A read always may, any other request only if it was never sent.
func mayRepeat(req *http.Request, err error) bool {
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return req.Body == nil || req.Body == http.NoBody
	}
	return neverSent(err) && (req.Body == nil || req.Body == http.NoBody || req.GetBody != nil)
}

func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
