// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMatchGroup(t *testing.T) {
	for _, test := range []struct {
		pattern, group string
		want           bool
	}{
		{"example.com", "example.com", true},
		{"example.com", "a.example.com", false},
		{"*.example.com", "a.example.com", true},
		{"*.example.com", "a.b.example.com", true},
		{"*.example.com", "example.com", false},
		{"*.example.com", ".example.com", false},
		{"*.example.com", "anexample.com", false},
		{"*.example.com", "", false},
	} {
		assert.Equal(t, test.want, MatchGroup(test.pattern, test.group), "%s and %s", test.pattern, test.group)
	}
}

func TestNamesOfBackends(t *testing.T) {
	for name, valid := range map[string]bool{
		"wardle": true, "extensions-big": true, "extensions-b-1": true, "extensionsbig": true,
		"extensions": false, "core": false, "extensions-": false, "extensions-A": false, "extensions-a.b": false, "extensions-a-": false,
		"extensions-" + strings.Repeat("a", 60): false,
	} {
		assert.Equal(t, valid, ValidateBackend(name) == nil, name)
	}
	assert.Error(t, ValidateName("extensions-big"), "the name of a partition is no name of an API service")
}
