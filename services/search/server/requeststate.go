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

type requestStateKey struct{}

// WithRequestState goes around the handler chain, so that the authorizer can pass the access of the reader to the handler.
func WithRequestState(chain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		chain.ServeHTTP(w, req.WithContext(withRequestState(req.Context())))
	})
}

// requestState is what filters of the handler chain pass to later ones: RequestInfo passes the nested request, and the authorizer the
// access of the reader.
type requestState struct {
	nested    atomic.Pointer[Nested]
	accessSet atomic.Pointer[rights.AccessSet]
	listed    atomic.Pointer[rights.AccessSet]
	again     atomic.Pointer[decision]
	judge     atomic.Pointer[judge]
}

// decision decides about a request again. It returns nil if the request is not allowed any more.
type decision func(context.Context) (*rights.AccessSet, error)

func withRequestState(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestStateKey{}, &requestState{})
}

// storeNested stores the request that is inside of a request, or the collection that a request is for.
func storeNested(ctx context.Context, n *Nested) {
	if state, ok := ctx.Value(requestStateKey{}).(*requestState); ok {
		state.nested.Store(n)
	}
}

// nestedOf returns what storeNested has stored of a request, if that has a path. An authorizer is also asked about other requests, such as
// those that a review names.
func nestedOf(ctx context.Context, path string) *Nested {
	state, ok := ctx.Value(requestStateKey{}).(*requestState)
	if !ok {
		return nil
	}
	if n := state.nested.Load(); n != nil && n.Info.Path == path {
		return n
	}
	return nil
}

// storeAccessSet stores the access of the reader of a request. The last decision counts: that about the request itself comes after those
// about impersonation.
func storeAccessSet(ctx context.Context, accessSet *rights.AccessSet) {
	if state, ok := ctx.Value(requestStateKey{}).(*requestState); ok {
		state.accessSet.Store(accessSet)
	}
}

// storeAgain stores how to decide again, for requests that last.
func storeAgain(ctx context.Context, again decision) {
	if state, ok := ctx.Value(requestStateKey{}).(*requestState); ok {
		state.again.Store(&again)
	}
}

// storeJudge stores the judge of requests that a request asks about.
func storeJudge(ctx context.Context, by *judge) {
	if state, ok := ctx.Value(requestStateKey{}).(*requestState); ok {
		state.judge.Store(by)
	}
}

// judgeOf returns the judge of requests that a request asks about, or nil.
func judgeOf(ctx context.Context) *judge {
	state, ok := ctx.Value(requestStateKey{}).(*requestState)
	if !ok {
		return nil
	}
	return state.judge.Load()
}

// decideAgain decides about a request as if it came now.
func decideAgain(ctx context.Context) (*rights.AccessSet, error) {
	state, ok := ctx.Value(requestStateKey{}).(*requestState)
	if !ok || state.again.Load() == nil {
		return accessSetFrom(ctx)
	}
	return (*state.again.Load())(ctx)
}

// accessSetFrom returns the access of the reader of a request.
func accessSetFrom(ctx context.Context) (*rights.AccessSet, error) {
	state, _ := ctx.Value(requestStateKey{}).(*requestState)
	reader, _ := request.UserFrom(ctx)
	if state == nil || reader == nil || state.accessSet.Load() == nil || state.accessSet.Load().Reader() != reader {
		return nil, apierrors.NewInternalError(errors.New("there is no decision about what the reader may see"))
	}
	return state.accessSet.Load(), nil
}

// storeListed stores what the reader may list, for a request that gets an object and lists others.
func storeListed(ctx context.Context, accessSet *rights.AccessSet) {
	if state, ok := ctx.Value(requestStateKey{}).(*requestState); ok {
		state.listed.Store(accessSet)
	}
}

// listedFrom returns what storeListed has stored for the reader of a request.
func listedFrom(ctx context.Context) (*rights.AccessSet, error) {
	state, _ := ctx.Value(requestStateKey{}).(*requestState)
	reader, _ := request.UserFrom(ctx)
	if state == nil || reader == nil || state.listed.Load() == nil || state.listed.Load().Reader() != reader {
		return nil, apierrors.NewInternalError(errors.New("there is no decision about what the reader may list"))
	}
	return state.listed.Load(), nil
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
			storeAccessSet(ctx, v)
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
