// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"net/http"

	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// errTooMuch means that there is an answer, but the user has too much memory to receive it.
var errTooMuch = errors.New("requests of this user take too much memory")

// counted is a transport whose answers count as memory of a request. Those of watches and the like count while their client does not
// receive them (requestmemory.Writer).
type counted struct {
	http.RoundTripper
	reservation *requestmemory.Reservation
}

const (
	// headerCost is what each value of a header takes, here and in the answer to the client.
	headerCost = 256
	// ordinaryHeader is what counts with the request.
	ordinaryHeader = 16 << 10
)

// sizeOfHeader returns the memory that the header of an answer takes, or 0 if that is what every answer takes.
func sizeOfHeader(header http.Header) (size int64) {
	for name, values := range header {
		for _, value := range values {
			size += int64(len(name)+len(value)) + headerCost
		}
	}
	if size <= ordinaryHeader {
		return 0
	}
	return size
}

// RoundTrip sends the request. The answer of a write is never dropped: its client would not know that it was carried out. What passes
// through a tunnel does not count. Any other answer to a request for a tunnel does, and so does each large header.
func (c counted) RoundTrip(req *http.Request) (*http.Response, error) {
	stop := context.AfterFunc(req.Context(), func() {
		if errors.Is(context.Cause(req.Context()), context.Canceled) { // and not for a deadline
			c.reservation.Cancelled()
		}
	})
	resp, err := c.RoundTripper.RoundTrip(req)
	stop()
	if err != nil {
		return nil, err
	}
	class := routing.Of(req)
	bytes := sizeOfHeader(resp.Header)
	switch {
	case !class.LongRunning && resp.StatusCode != http.StatusSwitchingProtocols:
		bytes += upstream.Buffers(resp)
	case bytes == 0:
		return resp, nil
	}
	if !class.Repeatable && (!class.Tunnel || req.Method != http.MethodGet) {
		c.reservation.Add(bytes)
		return resp, nil
	}
	if !c.reservation.TakeAnswer(bytes) {
		_ = resp.Body.Close() // it is not read
		return nil, errTooMuch
	}
	return resp, nil
}
