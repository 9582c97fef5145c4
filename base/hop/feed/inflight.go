// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"net/http"
	"sync/atomic"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
)

// Counter counts the requests that a server works on.
type Counter struct {
	requests atomic.Int64
	// arrived counts all requests but probes.
	arrived atomic.Uint64
}

// Arrived returns how many requests have arrived since the start. Probes do not count.
func (c *Counter) Arrived() uint64 { return c.arrived.Load() }

// InFlight returns the number of requests. Watches and other long-running requests count only until they run.
func (c *Counter) InFlight() int { return int(c.requests.Load()) }

// ApplyTo makes the counter count the requests of the server, including those that wait for a seat.
func (c *Counter) ApplyTo(config *server.Config) {
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(handler http.Handler, config *server.Config) http.Handler {
		return c.count(build(c.exempt(handler, config.LongRunningFunc), config))
	}
}

func (c *Counter) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !isProbe(req.URL.Path) {
			c.arrived.Add(1)
		}
		c.requests.Add(1)
		defer c.requests.Add(-1)
		next.ServeHTTP(w, req)
	})
}

func isProbe(path string) bool { return path == "/readyz" || path == "/livez" || path == "/healthz" }

// exempt stops counting long-running requests.
func (c *Counter) exempt(next http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if info, ok := request.RequestInfoFrom(req.Context()); ok && longRunning(req, info) {
			c.requests.Add(-1)
			defer c.requests.Add(1)
		}
		next.ServeHTTP(w, req)
	})
}
