// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// failover sends requests to one of the servers of a link: to the next one when a connection cannot be made or, for what only reads, is
// lost before the answer. No other request that may have reached a server is sent twice. The error is an unreachableError when no server
// can be connected to.
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
		return nil, unreachable // a server that can be connected to is not waited for
	}
	f.link.noteAway(unreachable)
	return nil, &unreachableError{service: f.link.service, cause: unreachable}
}

// ErrSilent is the cause with which a context ends whose request was not answered for too long. The next one goes to another server.
var ErrSilent = errors.New("it does not answer")

// errNowhere is why a service cannot be reached that has no servers.
var errNowhere = errors.New("it is not known where it is")

// WrappedRoundTripper implements utilnet.RoundTripperWrapper, for those who look for what is below.
func (f *failover) WrappedRoundTripper() http.RoundTripper {
	return f.next
}

// requestTo returns req addressed to server, with a fresh body if the first was handed out already.
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

// mayRepeat says whether a request that failed so may be sent to another server: one that only reads always, others when they never left.
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
