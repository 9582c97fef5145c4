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

// Reason is the reason why a request got no answer.
type Reason int

const (
	// Unknown means a reason that does not concern the replica: the client is gone, or the request cannot be sent at all.
	Unknown Reason = iota
	// Unreachable means that no connection could be made. The request was not sent.
	Unreachable
	// Unsent means that the connection closed before any part of the request was sent.
	Unsent
	// Refused means that the replica reported that it did not process the request.
	Refused
	// Full means that all connections for requests of this kind are in use. The request was not sent.
	Full
	// TooLarge means that the headers are larger than the replica accepts. The request was not sent.
	TooLarge
	// Unsupported means that the replica does not speak the protocol that the request needs. The request was not sent.
	Unsupported
	// Broken means that the connection broke after a part of the request was sent. The replica may have processed it.
	Broken
	// Reset means that the replica aborted this one request. The replica may have processed it.
	Reset
)

var reasons = [...]string{
	Unknown: "unknown", Unreachable: "unreachable", Unsent: "unsent", Refused: "refused", Full: "full", TooLarge: "too_large",
	Unsupported: "unsupported", Broken: "broken", Reset: "reset",
}

// String returns the name of the reason in metrics.
func (r Reason) String() string { return reasons[r] }

// Unprocessed reports whether the replica certainly did not process the request. It returns false if unsure.
func (r Reason) Unprocessed() bool {
	switch r {
	case Unreachable, Unsent, Refused, Full, TooLarge, Unsupported:
		return true
	}
	return false
}

// Error is the error of a request without an answer.
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

// ErrFrozen is the cause of a context that ends because the replica shows no sign of life.
var ErrFrozen = errors.New("the replica shows no sign of life")

// ended returns the *Error of a request whose context has ended. sent says whether the replica may have received a part of it.
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

// Silent reports whether the replica gave no answer in time. It returns false if the replica rejected the connection.
func Silent(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout())
}

// Texts of errors that x/net/http2 does not export. They mean that a request was not processed. If a text changes, tests fail, and the
// aggregator retries fewer requests, never more.
const (
	// goAway is the error of streams above the last one that the server processed.
	goAway = "http2: Transport received Server's graceful shutdown GOAWAY"
	// goAwayFirst is the same error for the first stream of a connection.
	goAwayFirst = "http2: Transport received GOAWAY from server"
	// notUsable and notEstablished occur before a stream is opened.
	notUsable      = "http2: client conn not usable"
	notEstablished = "http2: client conn could not be established"
	// lost and closed are the errors of all requests on a connection that ends.
	lost   = "http2: client connection lost"
	closed = "http2: client connection force closed via ClientConn.Close"
	// tooLarge is the error of a request that was not sent. That of trailers, which follow a request, has no "http2: ".
	tooLarge = "http2: request header list larger than peer's advertised limit"
)

// multiplexedReason returns why a request over HTTP/2 failed. broken says whether the connection broke.
func multiplexedReason(err error, broken bool) Reason {
	var stream http2.StreamError
	var connection http2.ConnectionError
	switch message := err.Error(); {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Unknown
	case message == notUsable, message == notEstablished:
		return Unsent
	case message == tooLarge:
		return TooLarge
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
