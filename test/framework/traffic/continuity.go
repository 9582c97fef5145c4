// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// WatchesAreWell expects that no watch got an error. Unless a replica was killed, no watch may end within an event.
func (tr *Traffic) WatchesAreWell(t testing.TB, killed bool) {
	t.Helper()
	torn, problems := 0, map[string]int{}
	for _, w := range tr.watchers {
		torn += w.torn
		if w.problem != nil {
			problems[fmt.Sprintf("%s: %v", w.resource.Plural, w.problem)]++
		}
	}
	for _, problem := range slices.Sorted(maps.Keys(problems)) {
		t.Errorf("%d watchers had this problem: %s", problems[problem], problem)
	}
	switch {
	case torn > 0 && !killed:
		t.Errorf("%d watches ended within an event", torn)
	case torn > 0:
		t.Logf("%d watches ended within an event", torn)
	}
}

// writesOf has the writes of each object, by its name, in order.
type writesOf map[string][]write

// SawAll expects that each watcher has seen every write of the workers, once and in order.
func (tr *Traffic) SawAll(t testing.TB) {
	t.Helper()
	collections := map[string]writesOf{}
	for _, w := range tr.workers {
		collection := w.resource.Collection(w.namespace)
		if collections[collection] == nil {
			collections[collection] = writesOf{}
		}
		for _, write := range w.writes {
			collections[collection][write.name] = append(collections[collection][write.name], write)
		}
	}
	for i, w := range tr.watchers {
		if w.problem != nil {
			continue // WatchesAreWell reports it
		}
		assert.NoError(t, collections[w.path].areSeenAs(w.events), "watcher %d of %s", i, w.resource.Plural)
	}
}

// rootCA is a ConfigMap that kube-controller-manager writes into each namespace.
const rootCA = "kube-root-ca.crt"

// areSeenAs returns an error unless the events are those of the writes, and of nothing else, with increasing resourceVersions.
func (wrote writesOf) areSeenAs(events []event) error {
	seen, last := map[string]int{}, uint64(0)
	for _, e := range events {
		name := e.Object.Metadata.Name
		version, err := e.Object.Version()
		switch {
		case err != nil:
			return err
		case e.Type == "BOOKMARK" && version < last, e.Type != "BOOKMARK" && version <= last:
			return fmt.Errorf("%s %s has version %d after %d", e.Type, name, version, last)
		}
		last = version
		if e.Type == "BOOKMARK" || name == rootCA {
			continue
		}
		n := seen[name]
		seen[name]++
		if n >= len(wrote[name]) {
			return fmt.Errorf("nobody wrote the event %s %s %q", e.Type, name, e.Object.Data.Value)
		}
		if want := wrote[name][n]; !want.isSeenAs(e) {
			return fmt.Errorf("event %d of %s is %s %q @%d, not %s %q @%s", n, name, e.Type, e.Object.Data.Value, version, want.event, want.value, want.version)
		}
	}
	for name, writes := range wrote {
		for _, missing := range writes[seen[name]:] {
			if !missing.maybe {
				return fmt.Errorf("no event for the write %s %s %q @%s", missing.event, name, missing.value, missing.version)
			}
		}
	}
	return nil
}

func (w write) isSeenAs(e event) bool {
	return e.Type == w.event && e.Object.Data.Value == w.value && (w.version == "" || w.version == e.Object.Metadata.ResourceVersion)
}
