// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"net/http"
	"sync"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/warning"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// warnings are what authentication has to tell the client. The backend tells it, together with its own: there is a
// limit to all warnings of an answer.
type warnings struct {
	mu       sync.Mutex
	recorded []*identityv1.Warning
}

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(agent, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recorded = append(w.recorded, &identityv1.Warning{Agent: agent, Text: text})
}

type warningsKey struct{}

// WithWarnings collects the warnings of authentication for the backend. It belongs outside of the authentication filter.
func WithWarnings(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		collected := &warnings{}
		ctx := context.WithValue(req.Context(), warningsKey{}, collected)
		next.ServeHTTP(w, req.WithContext(warning.WithWarningRecorder(ctx, collected)))
	})
}

func warningsFrom(ctx context.Context) []*identityv1.Warning {
	collected, ok := ctx.Value(warningsKey{}).(*warnings)
	if !ok {
		return nil
	}
	collected.mu.Lock()
	defer collected.mu.Unlock()
	return collected.recorded
}

// TellWarnings tells the client what was collected, where no backend will.
func TellWarnings(next http.Handler) http.Handler {
	return genericapifilters.WithWarningRecorder(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for _, collected := range warningsFrom(req.Context()) {
			warning.AddWarning(req.Context(), collected.GetAgent(), collected.GetText())
		}
		next.ServeHTTP(w, req)
	}))
}
