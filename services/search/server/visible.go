// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
)

type noteKey struct{}

// WithNotes goes around the handler chain, so that the authorizer can tell the handler what the reader may see.
func WithNotes(chain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		chain.ServeHTTP(w, req.WithContext(withNote(req.Context())))
	})
}

func withNote(ctx context.Context) context.Context {
	return context.WithValue(ctx, noteKey{}, &atomic.Pointer[rights.Visible]{})
}

// note keeps what the reader of a request may see. The last decision counts: that about the request itself comes after those about impersonation.
func note(ctx context.Context, visible *rights.Visible) {
	if noted, ok := ctx.Value(noteKey{}).(*atomic.Pointer[rights.Visible]); ok {
		noted.Store(visible)
	}
}

// visible returns what the reader of a request may see.
func visible(ctx context.Context) (*rights.Visible, error) {
	noted, _ := ctx.Value(noteKey{}).(*atomic.Pointer[rights.Visible])
	reader, _ := request.UserFrom(ctx)
	if noted == nil || reader == nil || noted.Load() == nil || noted.Load().Reader() != reader {
		return nil, apierrors.NewInternalError(errors.New("nobody has decided what the reader may see"))
	}
	return noted.Load(), nil
}

// attempts bounds how often a search begins again because rights have changed meanwhile.
const attempts = 5

// asReader runs a search as the reader of a request sees the store, by the rights that the store has at that moment.
func (h *Handler) asReader(ctx context.Context, search func(*rights.Visible, *store.Store) error) error {
	v, err := visible(ctx)
	for range attempts {
		if err != nil {
			break
		}
		if err = search(v, h.store.For(v.Scope())); !errors.Is(err, store.ErrRightsChanged) {
			break
		}
		if v, err = h.rights.Renew(ctx, v); err == nil {
			note(ctx, v)
		}
	}
	switch {
	case errors.Is(err, store.ErrRightsChanged):
		return unavailable("rights in clusters change all the time now: try again later")
	case errors.Is(err, store.ErrScopeTooLarge):
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: err.Error() + ": name clusters or namespaces, or ask for a role for whole clusters",
		}}
	}
	return err
}

// unavailable is the error of what may work soon.
func unavailable(message string) error {
	err := apierrors.NewServiceUnavailable(message)
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return err
}
