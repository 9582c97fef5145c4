// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// watchesAreWell expects that no watch had an error. Where no replica was killed, none ends within an event.
func (tr *traffic) watchesAreWell(t testing.TB, killed bool) {
	t.Helper()
	torn, problems := 0, map[string]int{}
	for _, w := range tr.watchers {
		torn += w.torn
		if w.problem != nil {
			problems[fmt.Sprintf("%s: %v", w.resource.plural, w.problem)]++
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

// sawAll expects every watcher to have seen everything that workers wrote, once and in order.
func (tr *traffic) sawAll(t testing.TB) {
	t.Helper()
	collections := map[string]writesOf{}
	for _, w := range tr.workers {
		collection := w.resource.collection(w.namespace)
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
		if err := collections[w.path].areSeenAs(w.events); err != nil {
			t.Errorf("watcher %d of %s: %v", i, w.resource.plural, err)
		}
	}
}

// areSeenAs returns an error unless events tell of the writes, and of nothing else, with versions that only grow.
func (wrote writesOf) areSeenAs(events []event) error {
	seen, last := map[string]int{}, uint64(0)
	for _, e := range events {
		name := e.Object.Metadata.Name
		version, err := e.Object.version()
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

// TestWatchersMissNothing is about what other tests find wrong with events.
func TestWatchersMissNothing(t *testing.T) {
	wrote := writesOf{
		"a": {{event: "ADDED", name: "a", value: "1", version: "10"}, {event: "MODIFIED", name: "a", value: "2", version: "12"}, {event: "DELETED", name: "a", value: "2"}},
		"b": {{event: "ADDED", name: "b", value: "1", version: "11"}, {event: "MODIFIED", name: "b", value: "2", maybe: true}},
	}
	seen := func(kind, name, value, version string) event {
		e := event{Type: kind}
		e.Object.Metadata.Name, e.Object.Metadata.ResourceVersion, e.Object.Data.Value = name, version, value
		return e
	}
	added, other, modified := seen("ADDED", "a", "1", "10"), seen("ADDED", "b", "1", "11"), seen("MODIFIED", "a", "2", "12")
	bookmark, deleted, maybe := seen("BOOKMARK", "", "", "12"), seen("DELETED", "a", "2", "14"), seen("MODIFIED", "b", "2", "15")
	for _, test := range []struct {
		name   string
		events []event
		good   bool
	}{
		{"all", []event{added, other, modified, bookmark, deleted}, true},
		{"and what may have happened", []event{added, other, modified, deleted, maybe}, true},
		{"one missed", []event{added, other, deleted}, false},
		{"the last one missed", []event{added, other, modified}, false},
		{"a whole object missed", []event{added, modified, deleted}, false},
		{"one twice", []event{added, other, modified, modified, deleted}, false},
		{"one again later", []event{added, other, modified, deleted, added}, false},
		{"wrong order", []event{other, added, modified, deleted}, false},
		{"a bookmark from before", []event{added, other, modified, deleted, bookmark}, false},
		{"another value", []event{seen("ADDED", "a", "2", "10"), other, modified, deleted}, false},
		{"another version", []event{seen("ADDED", "a", "1", "9"), other, modified, deleted}, false},
		{"nobody wrote it", []event{added, other, modified, deleted, seen("ADDED", "c", "1", "20")}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := wrote.areSeenAs(test.events); (err == nil) != test.good {
				t.Errorf("error %v", err)
			}
		})
	}
}
