// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"net/http"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

type warningsKey struct{}

// WithWarnings collects the warnings of authentication for the backend. It belongs outside of the authentication filter.
func WithWarnings(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		collected := &envelope.Warnings{}
		ctx := context.WithValue(req.Context(), warningsKey{}, collected)
		next.ServeHTTP(w, req.WithContext(warning.WithWarningRecorder(ctx, collected)))
	})
}

func warningsFrom(ctx context.Context) []*identityv1.Warning {
	collected, ok := ctx.Value(warningsKey{}).(*envelope.Warnings)
	if !ok {
		return nil
	}
	return collected.Recorded()
}

// SendWarnings sends the collected warnings to the client, where no backend will.
func SendWarnings(next http.Handler) http.Handler {
	return genericapifilters.WithWarningRecorder(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for _, collected := range warningsFrom(req.Context()) {
			warning.AddWarning(req.Context(), collected.GetAgent(), collected.GetText())
		}
		next.ServeHTTP(w, req)
	}))
}
