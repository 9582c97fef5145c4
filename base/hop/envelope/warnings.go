// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"slices"
	"sync"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// Warnings collects the warnings of authentication. The backend sends them together with its own, since one limit holds for all warnings of
// a response.
type Warnings struct {
	mu       sync.Mutex
	recorded []*identityv1.Warning
}

// AddWarning implements warning.Recorder.
func (w *Warnings) AddWarning(agent, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recorded = append(w.recorded, &identityv1.Warning{Agent: agent, Text: text})
}

// Recorded returns the warnings so far.
func (w *Warnings) Recorded() []*identityv1.Warning {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.recorded)
}
