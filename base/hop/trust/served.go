// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"net/http"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
)

// withServed reports to the aggregator that the handler was reached, and how long the request has waited. The aggregator counts requests as
// the  API server does, which counts in its handlers only.
func withServed(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		from, _ := req.Context().Value(senderKey{}).(sender)
		if !from.aggregator {
			handler.ServeHTTP(w, req)
			return
		}
		trackers, tracked := request.LatencyTrackersFrom(req.Context()) // not of requests that last
		setServed(w.Header(), trackers)
		if tracked && mayCallWebhooks(req.Method) {
			w = responsewriter.WrapForHTTP1Or2(&served{ResponseWriter: w, trackers: trackers})
		}
		handler.ServeHTTP(w, req)
	})
}

// mayCallWebhooks reports whether admission may call webhooks, while the handler runs.
func mayCallWebhooks(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

func setServed(header http.Header, trackers *request.LatencyTrackers) {
	var waited time.Duration
	if trackers != nil {
		waited = trackers.APFQueueWaitTracker.GetLatency() + trackers.MutatingWebhookTracker.GetLatency() +
			trackers.ValidatingWebhookTracker.GetLatency()
	}
	header[envelope.ServedHeader] = []string{strconv.FormatInt(waited.Microseconds(), 10)}
}

// served is the ResponseWriter of a request for which webhooks are called before the answer begins.
type served struct {
	http.ResponseWriter
	trackers *request.LatencyTrackers
	begun    bool
}

// Unwrap is for http.ResponseController.
func (w *served) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *served) begin() {
	if !w.begun {
		w.begun = true
		setServed(w.Header(), w.trackers)
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *served) WriteHeader(code int) {
	w.begin()
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *served) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}
