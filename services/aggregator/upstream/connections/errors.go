// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"net"
	"strings"

	"golang.org/x/net/http2"
)

// Reason is why a request got no answer.
type Reason int

const (
	// Unknown means that it has nothing to do with the replica: the client went away, or the request
	// cannot be sent at all.
	Unknown Reason = iota
	// Unreachable means that no connection could be made. The request never left.
	Unreachable
	// Unsent means that the connection was closed before anything of the request was sent. It never left.
	Unsent
	// Refused means that the replica said that it did not process the request.
	Refused
	// Full means that requests of its kind use all connections that they may. It never left.
	Full
	// Broken means that the connection broke when the request, or a part of it, had been sent. The
	// replica may have processed it.
	Broken
	// Reset means that the replica broke off this one request. It may have processed it.
	Reset
)

var reasons = [...]string{Unknown: "unknown", Unreachable: "unreachable", Unsent: "unsent", Refused: "refused", Full: "full", Broken: "broken", Reset: "reset"}

// String returns the reason as metrics call it.
func (r Reason) String() string { return reasons[r] }

// Unprocessed reports whether the replica can not have processed the request. What is not known to be
// so is false.
func (r Reason) Unprocessed() bool {
	return r == Unreachable || r == Unsent || r == Refused || r == Full
}

// Error is the error of a request that got no answer.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns why a request got no answer.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return Unknown
}

// ErrFrozen is the cause with which the context of a request ends whose replica shows no sign of life.
var ErrFrozen = errors.New("the replica shows no sign of life")

// ended returns the *Error of a request whose context has ended. sent is whether the replica may have received a part of it.
func ended(ctx context.Context, sent bool) *Error {
	switch cause := context.Cause(ctx); {
	case !errors.Is(cause, ErrFrozen):
		return &Error{Reason: Unknown, Err: ctx.Err()}
	case sent:
		return &Error{Reason: Broken, Err: cause}
	default:
		return &Error{Reason: Unsent, Err: cause}
	}
}

// Break returns the *Error of an answer that broke off with an error.
func Break(err error) error {
	return &Error{Reason: multiplexedReason(err, true), Err: err}
}

// Silent reports whether the replica did not answer in time, rather than refusing.
func Silent(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout())
}

// What x/net/http2 says of requests that were not processed, and exports no name for. Should it
// change, tests fail, and requests are repeated less often, never more.
const (
	// goAway is said of streams above the last one that the server has processed.
	goAway = "http2: Transport received Server's graceful shutdown GOAWAY"
	// goAwayFirst is said in the same case of the first stream of a connection.
	goAwayFirst = "http2: Transport received GOAWAY from server"
	// notUsable and notEstablished are said before a stream is opened.
	notUsable      = "http2: client conn not usable"
	notEstablished = "http2: client conn could not be established"
	// lost and closed are said of all requests on a connection that ends.
	lost   = "http2: client connection lost"
	closed = "http2: client connection force closed via ClientConn.Close"
)

// multiplexedReason returns why a request over HTTP/2 failed. The connection is broken or not.
func multiplexedReason(err error, broken bool) Reason {
	var stream http2.StreamError
	var connection http2.ConnectionError
	switch message := err.Error(); {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Unknown
	case message == notUsable, message == notEstablished:
		return Unsent
	case message == goAway, strings.HasPrefix(message, goAwayFirst):
		return Refused
	case errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream:
		return Refused
	case errors.As(err, &stream):
		return Reset
	case broken, message == lost, message == closed, errors.As(err, &connection):
		return Broken
	}
	return Reset
}
