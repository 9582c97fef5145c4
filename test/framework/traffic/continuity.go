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

// WatchesAreWell expects that no watch had an error. Where no replica was killed, none ends within an event.
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
		t.Errorf("%d times a client that watches %s", problems[problem], problem)
	}
	switch {
	case torn > 0 && !killed:
		t.Errorf("%d watches ended within an event", torn)
	case torn > 0:
		t.Logf("%d watches ended within an event", torn)
	}
}

// writesOf are writes by the names of objects, in their order.
type writesOf map[string][]write

// SawAll expects every watcher to have seen everything that workers wrote, once and in order.
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
			continue // which was told
		}
		assert.NoError(t, collections[w.path].areSeenAs(w.events), "watcher %d of %s", i, w.resource.Plural)
	}
}

// areSeenAs returns an error unless events tell of the writes, and of nothing else, with versions that only grow.
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
		if e.Type == "BOOKMARK" {
			continue
		}
		n := seen[name]
		seen[name]++
		if n >= len(wrote[name]) {
			return fmt.Errorf("%s %s %q is seen, which nobody wrote", e.Type, name, e.Object.Data.Value)
		}
		if want := wrote[name][n]; !want.isSeenAs(e) {
			return fmt.Errorf("event %d of %s is %s %q @%d, not %s %q @%s", n, name, e.Type, e.Object.Data.Value, version, want.event, want.value, want.version)
		}
	}
	for name, writes := range wrote {
		for _, missing := range writes[seen[name]:] {
			if !missing.maybe {
				return fmt.Errorf("%s %s %q @%s is not seen", missing.event, name, missing.value, missing.version)
			}
		}
	}
	return nil
}

func (w write) isSeenAs(e event) bool {
	return e.Type == w.event && e.Object.Data.Value == w.value && (w.version == "" || w.version == e.Object.Metadata.ResourceVersion)
}
