// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// apiServer is the component of kube-apiserver in metrics.
const apiServer = "apiserver"

// Measure makes the forwarder count requests in the metrics of an API server, as the backend does. A user who knows kube-apiserver looks
// for all requests at the endpoints of the kubernetes Service, and its alerts do.
func (f *Forwarder) Measure() { f.measures = true }

// measurement is what the metrics say about one request.
type measurement struct {
	code int
	size int64
	// served is set if a handler of the backend has answered. An API server does not count requests that its filters reject, except for 429.
	served bool
	// waited is the time that does not count for service levels: for webhooks and for a seat.
	waited time.Duration
}

// take removes from an answer what only the aggregator may see.
func (m *measurement) take(resp *http.Response) {
	m.code = resp.StatusCode
	values, ok := resp.Header[envelope.ServedHeader]
	if !ok {
		return
	}
	delete(resp.Header, envelope.ServedHeader)
	micros, err := strconv.ParseInt(values[0], 10, 64)
	m.served, m.waited = err == nil, time.Duration(max(0, micros))*time.Microsecond
}

// longRunning counts a request that lasts, while it does.
func (f *Forwarder) longRunning(req *http.Request, class *routing.Request, serve func()) {
	if !f.measures || !class.LongRunning {
		serve()
		return
	}
	metrics.RecordLongRunning(req, class.Labels(), apiServer, serve)
}

// record counts a request that has ended. A request for a resource that does not exist is none for an API server.
func (f *Forwarder) record(req *http.Request, class *routing.Request, m *measurement) {
	if !f.measures || m.code == 0 || !class.Info.IsResourceRequest {
		return
	}
	labels := class.Labels()
	code := m.code
	switch {
	case labels.Resource == "", unrouted(req, class, code):
		return
	case code == http.StatusSwitchingProtocols:
		code = 0 // the handler takes the connection, and kube-apiserver does not see what it answers
	case m.served:
	case code == http.StatusTooManyRequests:
		metrics.RecordRequestTermination(req, labels, apiServer, code)
		metrics.RecordDroppedRequest(req, labels, apiServer, !class.Repeatable)
		return
	case code == http.StatusGatewayTimeout:
		// The filter answers in place of the handler, which kube-apiserver counts when it ends.
		metrics.RecordRequestTermination(req, labels, apiServer, code)
	default:
		return
	}
	ctx := req.Context()
	if !class.LongRunning {
		ctx = request.WithLatencyTrackers(ctx)
		request.TrackAPFQueueWaitLatency(ctx, m.waited)
	}
	var took time.Duration
	if received, ok := request.ReceivedTimestampFrom(ctx); ok {
		took = time.Since(received)
	}
	metrics.MonitorRequest(req.WithContext(ctx), verbOf(req, class), labels.APIGroup, labels.APIVersion, labels.Resource, labels.Subresource,
		scopeOf(class.Owner, labels), apiServer, false, "", code, int(m.size), took)
}

// unrouted reports whether a request for a built-in resource had no handler: the path has none for the method or for the media type of a
// patch.
func unrouted(req *http.Request, class *routing.Request, code int) bool {
	return class.Owner == routing.Core &&
		(code == http.StatusMethodNotAllowed || code == http.StatusUnsupportedMediaType && req.Method == http.MethodPatch)
}

// verbOf returns the verb with which kube-apiserver registers handlers, as far as its metrics need it.
func verbOf(req *http.Request, class *routing.Request) string {
	switch verb := class.Info.Verb; {
	case verb == "get":
		return metrics.MethodGet
	case verb == "list", verb == "watch" && class.Owner == routing.Core && req.URL.Query().Has("watch"):
		return metrics.MethodList // one handler serves both
	case verb == "watch":
		return metrics.MethodWatch
	}
	return ""
}

// scopeOf returns the scope of a request. For built-in resources it is that of the path, even if a field selector names one object.
func scopeOf(owner routing.Owner, info *request.RequestInfo) string {
	switch info.Verb {
	case "list", "watch", "deletecollection":
		if owner == routing.Core {
			unnamed := *info
			unnamed.Name = ""
			return metrics.CleanScope(&unnamed)
		}
	}
	return metrics.CleanScope(info)
}
