// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

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

// retryAfterSeconds is what clients are told to wait before they try again.
const retryAfterSeconds = 1

// Unavailable answers 503 with a Status in the media type that the client asked for, and a
// Retry-After.
func Unavailable(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, format string, args ...any) {
	status := apierrors.NewServiceUnavailable(fmt.Sprintf(format, args...))
	status.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
	writeStatus(s, w, req, status)
}

// TooMuchMemory is the message to a user who has too much memory of the aggregator.
const TooMuchMemory = "requests of this user take too much memory, please try again later"

// TooMany answers 429, with a Retry-After.
func TooMany(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, message string) {
	writeStatus(s, w, req, apierrors.NewTooManyRequests(message, retryAfterSeconds))
}

func badGateway(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, message string) {
	writeStatus(s, w, req, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusBadGateway,
		Reason:  metav1.StatusReasonInternalError,
		Message: message,
	}})
}

// headersTooLarge answers 431.
func headersTooLarge(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request) {
	writeStatus(s, w, req, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusRequestHeaderFieldsTooLarge,
		Reason:  metav1.StatusReasonBadRequest,
		Message: "the headers of the request are too large",
	}})
	count(req, http.StatusRequestHeaderFieldsTooLarge)
}

func notFound(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, message string) {
	writeStatus(s, w, req, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusNotFound,
		Reason:  metav1.StatusReasonNotFound,
		Message: message,
	}})
}

// component is that of kube-aggregator in metrics.
const component = "aggregator"

// count counts an answer of the aggregator's own, which no backend counts.
func count(req *http.Request, code int) {
	class := routing.Of(req)
	labels := class.Labels()
	metrics.RecordRequestTermination(req, labels, component, code)
	if class.Owner == routing.Aggregated {
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

func writeStatus(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, status *apierrors.StatusError) {
	w.Header().Set("Cache-Control", "no-cache, private")
	// An unknown replica is no failure.
	if code := responsewriters.ErrorNegotiated(status, s, schema.GroupVersion{Version: "v1"}, w, req); code != http.StatusNotFound {
		count(req, code)
	}
}
