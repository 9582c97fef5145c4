// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// openAPIV3 is where API servers have their OpenAPI v3 documents.
const openAPIV3 = "/openapi/v3"

// balanceOf returns the part of a request that matters for the choice of a replica.
func balanceOf(r *routing.Request) balance.Request {
	var b balance.Request
	if r.LongRunning || r.Tunnel {
		b.Kind = balance.Watch
	}
	switch {
	case r.Resource.Resource != "":
		b.Key = balance.Key(r.Resource.Group, r.Resource.Resource)
	case r.Kind == routing.NonResource && strings.HasPrefix(r.Info.Path, openAPIV3):
		// One replica answers for the index and for all documents, because the index has hashes of them: two replicas see a change of a
		// CustomResourceDefinition at different times, and a client would be sent from the hash of one to that of the other.
		b.Key = balance.Key("", openAPIV3)
	}
	return b
}

// maxOrdinary is the size of the headers that any HTTP server accepts. Some close the whole HTTP/2 connection if headers are larger.
const maxOrdinary = 8 << 10

// isOrdinary reports whether no server can dislike a request so much that it closes the connection, on which other users wait. Trailers
// have limits of their own, which a server need not report.
func isOrdinary(req *http.Request) bool {
	return len(req.Trailer) == 0 && requestmemory.SizeOf(req.Header)+int64(len(req.URL.Path)+len(req.URL.RawQuery)) <= maxOrdinary
}

// wireOf returns the kind of connection that a request needs.
func wireOf(r *routing.Request, anonymous, ordinary bool) connections.Wire {
	switch {
	case r.Tunnel:
		return connections.Exclusive
	case r.Connect:
		return connections.Exclusive // CONNECT over HTTP/2 has no path
	case anonymous:
		// An API server closes the HTTP/2 connection of an anonymous request (CVE-2023-44487), and the aggregator closes its client's. Each new
		// connection costs both sides a TLS handshake.
		return connections.Few
	case !ordinary, r.Kind == routing.PassedOn:
		// The header of an answer that is too large may close the connection. A pod writes its own.
		return connections.Isolated
	case r.Repeatable && r.Holdable:
		return connections.Either
	}
	return connections.Multiplexed
}

// IsAnonymous reports whether an API server would treat the sender as unauthenticated.
func IsAnonymous(sender user.Info) bool {
	return sender != nil && (sender.GetName() == user.Anonymous || slices.Contains(sender.GetGroups(), user.AllUnauthenticated))
}
