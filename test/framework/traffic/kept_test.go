// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestLostWritesAreFound tests which values can be stored after writes.
func TestLostWritesAreFound(t *testing.T) {
	created, updated, deleted := write{event: "ADDED", value: "1"}, write{event: "MODIFIED", value: "2"}, write{event: "DELETED", value: "2"}
	perhaps := func(w write) write { w.maybe = true; return w }
	for _, test := range []struct {
		name   string
		writes []write
		// may and mayNot are values that are stored, or "" for no object.
		may, mayNot []string
	}{
		{"created", []write{created}, []string{"1"}, []string{"", "2"}},
		{"updated", []write{created, updated}, []string{"2"}, []string{"", "1"}},
		{"deleted", []write{created, updated, deleted}, []string{""}, []string{"1", "2"}},
		{"perhaps created", []write{perhaps(created)}, []string{"", "1"}, []string{"2"}},
		{"perhaps updated", []write{created, perhaps(updated)}, []string{"1", "2"}, []string{""}},
		{"perhaps deleted", []write{created, updated, perhaps(deleted)}, []string{"", "2"}, []string{"1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, value := range test.may {
				assert.True(t, couldLeave(test.writes, value, value != ""), "%q is taken for a loss", value)
			}
			for _, value := range test.mayNot {
				assert.False(t, couldLeave(test.writes, value, value != ""), "%q is taken for right", value)
			}
		})
	}
}
