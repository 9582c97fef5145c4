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
	"github.com/tripod-k8s/tripod/services/search/store/access"
)

type noteKey struct{}

// WithNotes goes around the handler chain, so that the authorizer can tell the handler what the reader may read.
func WithNotes(chain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		chain.ServeHTTP(w, req.WithContext(withNote(req.Context())))
	})
}

// notes are what the parts of the handler chain tell the later ones about a request: RequestInfo what it is, and the authorizer what its
// reader may read.
type notes struct {
	nested    atomic.Pointer[Nested]
	accessSet atomic.Pointer[rights.AccessSet]
	listed    atomic.Pointer[rights.AccessSet]
	again     atomic.Pointer[decision]
	judge     atomic.Pointer[judge]
}

// decision decides about a request again. It returns nil if the request is not allowed any more.
type decision func(context.Context) (*rights.AccessSet, error)

func withNote(ctx context.Context) context.Context {
	return context.WithValue(ctx, noteKey{}, &notes{})
}

// noteNested keeps the request that is inside of a request.
func noteNested(ctx context.Context, n *Nested) {
	if noted, ok := ctx.Value(noteKey{}).(*notes); ok {
		noted.nested.Store(n)
	}
}

// nestedOf returns what noteNested has kept of a request, if that has a path. An authorizer is also asked about other requests, such as
// those that a review names.
func nestedOf(ctx context.Context, path string) *Nested {
	noted, ok := ctx.Value(noteKey{}).(*notes)
	if !ok {
		return nil
	}
	if n := noted.nested.Load(); n != nil && n.Info.Path == path {
		return n
	}
	return nil
}

// note keeps the access of the reader of a request. The last decision counts: that about the request itself comes after those about
// impersonation.
func note(ctx context.Context, accessSet *rights.AccessSet) {
	if noted, ok := ctx.Value(noteKey{}).(*notes); ok {
		noted.accessSet.Store(accessSet)
	}
}

// noteAgain keeps how to decide again, for requests that last.
func noteAgain(ctx context.Context, again decision) {
	if noted, ok := ctx.Value(noteKey{}).(*notes); ok {
		noted.again.Store(&again)
	}
}

// noteJudge keeps who decides about requests that a request asks about.
func noteJudge(ctx context.Context, by *judge) {
	if noted, ok := ctx.Value(noteKey{}).(*notes); ok {
		noted.judge.Store(by)
	}
}

// judgeOf returns who decides about what a request asks about, or nil.
func judgeOf(ctx context.Context) *judge {
	noted, ok := ctx.Value(noteKey{}).(*notes)
	if !ok {
		return nil
	}
	return noted.judge.Load()
}

// decideAgain decides about a request as if it came now.
func decideAgain(ctx context.Context) (*rights.AccessSet, error) {
	noted, ok := ctx.Value(noteKey{}).(*notes)
	if !ok || noted.again.Load() == nil {
		return accessSetFrom(ctx)
	}
	return (*noted.again.Load())(ctx)
}

// accessSetFrom returns the access of the reader of a request.
func accessSetFrom(ctx context.Context) (*rights.AccessSet, error) {
	noted, _ := ctx.Value(noteKey{}).(*notes)
	reader, _ := request.UserFrom(ctx)
	if noted == nil || reader == nil || noted.accessSet.Load() == nil || noted.accessSet.Load().Reader() != reader {
		return nil, apierrors.NewInternalError(errors.New("there is no decision about what the reader may see"))
	}
	return noted.accessSet.Load(), nil
}

// noteListed keeps what the reader may list, for a request that gets an object and lists others.
func noteListed(ctx context.Context, accessSet *rights.AccessSet) {
	if noted, ok := ctx.Value(noteKey{}).(*notes); ok {
		noted.listed.Store(accessSet)
	}
}

// listedFrom returns what noteListed has kept for the reader of a request.
func listedFrom(ctx context.Context) (*rights.AccessSet, error) {
	noted, _ := ctx.Value(noteKey{}).(*notes)
	reader, _ := request.UserFrom(ctx)
	if noted == nil || reader == nil || noted.listed.Load() == nil || noted.listed.Load().Reader() != reader {
		return nil, apierrors.NewInternalError(errors.New("there is no decision about what the reader may list"))
	}
	return noted.listed.Load(), nil
}

// attempts bounds how often a search begins again because rights have changed meanwhile.
const attempts = 5

// asReader runs a search as the reader of a request sees the store, by the rights that the store has at that moment.
func (h *Handler) asReader(ctx context.Context, search func(*rights.AccessSet, *store.Store) error) error {
	v, err := accessSetFrom(ctx)
	for range attempts {
		if err != nil {
			break
		}
		if err = search(v, h.store.For(v.Filter())); !errors.Is(err, access.ErrRightsChanged) {
			break
		}
		if v, err = h.rights.Renew(ctx, v); err == nil {
			note(ctx, v)
		}
	}
	switch {
	case errors.Is(err, access.ErrRightsChanged):
		return unavailable("rights in clusters change all the time now: try again later")
	case errors.Is(err, access.ErrFilterTooLarge):
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
