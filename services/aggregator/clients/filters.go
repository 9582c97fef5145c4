// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/base/hop/keepalive"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// Arrive is in front of all other handlers. It takes memory for each request, in the name of the owner of the connection, and answers 429
// if that one has too much.
func (c *Connections) Arrive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		conn, owner, counts := from(req.Context()), "", false
		if conn != nil {
			owner, counts = c.ownerOf(conn)
		}
		if !counts {
			next.ServeHTTP(w, req)
			return
		}
		reservation := c.requests.Arrive(owner, req.Header)
		if reservation == nil {
			// As k8s.io/apiserver answers. It costs little, because many such requests may come at the same time.
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
			return
		}
		defer reservation.End()
		next.ServeHTTP(w, req.WithContext(reservation.In(req.Context())))
		c.answered(conn, req)
	})
}

// Use is behind authentication. While a request of a known user is in flight, its connection is in use. If its user has too many
// connections in use, tooMany answers, and the connection closes.
func (c *Connections) Use(next, tooMany http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		conn := from(req.Context())
		sender, ok := request.UserFrom(req.Context())
		if conn == nil || !ok || upstream.IsAnonymous(sender) {
			next.ServeHTTP(w, req)
			return
		}
		if !c.begin(conn, sender) {
			w.Header().Set("Connection", "close")
			tooMany.ServeHTTP(w, req)
			return
		}
		defer c.end(conn)
		if routing.Of(req).Tunnel {
			// A terminal may stand still. No other request uses the connection.
			keepalive.AllowPauses(conn.Conn)
		}
		next.ServeHTTP(w, req)
	})
}
