// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// Handler answers requests by what a function returns.
func Handler(codecs runtime.NegotiatedSerializer, answer func(http.ResponseWriter, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		given, err := answer(w, req)
		if err != nil {
			responsewriters.ErrorNegotiated(statusOf(err), codecs, schema.GroupVersion{Version: "v1"}, w, req)
			return
		}
		responsewriters.WriteRawJSON(http.StatusOK, given, w)
	})
}

// statusOf returns an error that clients understand.
func statusOf(err error) error {
	if errors.Is(err, ErrGate) {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: err.Error(),
		}}
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	return apierrors.NewInternalError(err)
}

// Read decodes the body of a request, which may have so many bytes.
func Read(w http.ResponseWriter, req *http.Request, maxBytes int64, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxBytes))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a request may have %d bytes: send fewer objects", tooLarge.Limit))
	}
	if err != nil {
		return apierrors.NewBadRequest("the body is not as the protocol has it: " + err.Error())
	}
	return nil
}

// LimitOf returns how many objects a page may have.
func LimitOf(query url.Values) (int64, error) {
	text := query.Get(Limit)
	if text == "" {
		return MaxObjects, nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit < 1 || limit > MaxObjects {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("%s is %q, and must be from 1 to %d", Limit, text, MaxObjects))
	}
	return limit, nil
}

// Validate returns an error if a batch has too many objects, or no name of a move and is no dry run.
func (b Batch) Validate() error {
	if n := len(b.Objects) + len(b.Gone); n > MaxObjects {
		return apierrors.NewBadRequest(fmt.Sprintf("a batch may have %d objects, and not %d", MaxObjects, n))
	}
	if b.DryRun {
		return nil
	}
	if err := ValidateMove(b.Move); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// Refused is the error about an object that a server cannot take over.
func Refused(resource schema.GroupResource, kind, name, field, why string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("%s %s: %s", resource, name, why),
		Details: &metav1.StatusDetails{
			Name: name, Group: resource.Group, Kind: kind, Causes: []metav1.StatusCause{{Field: field, Message: why}},
		},
	}}
}
