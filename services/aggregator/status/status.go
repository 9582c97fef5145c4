// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status has the answers that the aggregator gives in place of a service: Statuses in the media type that the client has asked for.
package status

import (
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// retryAfterSeconds is the Retry-After of clients that have to wait.
const retryAfterSeconds = 1

// Unavailable answers 503, with a Retry-After.
func Unavailable(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, format string, args ...any) {
	answer := apierrors.NewServiceUnavailable(fmt.Sprintf(format, args...))
	answer.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
	write(s, w, req, answer)
}

// TooMuchMemory is the message to a user who has too much memory of the aggregator.
const TooMuchMemory = "requests of this user take too much memory, please try again later"

// TooMany answers 429, with a Retry-After.
func TooMany(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, message string) {
	write(s, w, req, apierrors.NewTooManyRequests(message, retryAfterSeconds))
}

// BadGateway answers 502. The request may have been carried out.
func BadGateway(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, message string) {
	write(s, w, req, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusBadGateway,
		Reason:  metav1.StatusReasonInternalError,
		Message: message,
	}})
}

// HeadersTooLarge answers 431.
func HeadersTooLarge(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request) {
	write(s, w, req, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusRequestHeaderFieldsTooLarge,
		Reason:  metav1.StatusReasonBadRequest,
		Message: "the headers of the request are too large",
	}})
	Count(req, http.StatusRequestHeaderFieldsTooLarge)
}

// NotFound answers 404.
func NotFound(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, message string) {
	write(s, w, req, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusNotFound,
		Reason:  metav1.StatusReasonNotFound,
		Message: message,
	}})
}

// component is that of kube-aggregator in metrics.
const component = "aggregator"

// Count counts an answer of the aggregator's own, which no backend counts. Requests to aggregated API servers and to additional backends
// end up in no request metric of the aggregator, so its answers in their place do not either. They would be errors without good requests
// beside them.
func Count(req *http.Request, code int) {
	class := routing.Of(req)
	labels := class.Labels()
	metrics.RecordRequestTermination(req, labels, component, code)
	if class.Owner == routing.Aggregated || class.Owner.Additional() {
		return // as kube-aggregator
	}
	verb := ""
	if class.Kind == routing.Watch {
		verb = metrics.MethodWatch
	}
	var took time.Duration
	if received, ok := request.ReceivedTimestampFrom(req.Context()); ok {
		took = time.Since(received)
	}
	metrics.MonitorRequest(req, verb, labels.APIGroup, labels.APIVersion, labels.Resource, labels.Subresource, metrics.CleanScope(labels),
		component, false, "", code, 0, took)
}

func write(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, answer *apierrors.StatusError) {
	w.Header().Set("Cache-Control", "no-cache, private")
	// An unknown replica is no failure.
	if code := responsewriters.ErrorNegotiated(answer, s, schema.GroupVersion{Version: "v1"}, w, req); code != http.StatusNotFound {
		Count(req, code)
	}
}
