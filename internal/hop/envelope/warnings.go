// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"slices"
	"sync"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// Warnings collects what authentication has to tell the client. The backend tells it, together with its own: there is a limit
// to all warnings of an answer.
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

// Recorded returns what was collected until now.
func (w *Warnings) Recorded() []*identityv1.Warning {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.recorded)
}
