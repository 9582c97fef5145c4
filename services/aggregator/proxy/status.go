// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
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

func badGateway(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, message string) {
	writeStatus(s, w, req, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusBadGateway,
		Reason:  metav1.StatusReasonInternalError,
		Message: message,
	}})
}

func notFound(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, message string) {
	writeStatus(s, w, req, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusNotFound,
		Reason:  metav1.StatusReasonNotFound,
		Message: message,
	}})
}

func writeStatus(s runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, status *apierrors.StatusError) {
	w.Header().Set("Cache-Control", "no-cache, private")
	responsewriters.ErrorNegotiated(status, s, schema.GroupVersion{Version: "v1"}, w, req)
}
