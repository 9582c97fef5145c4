// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import "testing"

// TestWatchersMissNothing tests that areSeenAs finds each kind of wrong events.
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
