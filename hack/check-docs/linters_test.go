// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExcusesNameLintersThatRun(t *testing.T) {
	const source = `package a

// a is a constant. Its text is not an excuse.
const a = "//nolint:nilnil // text" //nolint:gosec // no password
const b = "" //nolint:gosec,nilnil // two
`
	assert.Equal(t, []string{"a.go:5: nolint:nilnil: .golangci.yml does not enable this linter: remove the excuse"},
		findExcuses("a.go", commentsOf([]byte(source)), []string{"errcheck", "gosec"}))
}

func TestLintersAreThoseOfTheConfiguration(t *testing.T) {
	config, err := os.ReadFile("../../" + lintersFile)
	require.NoError(t, err)
	enabled, err := lintersOf(config)
	require.NoError(t, err)
	assert.Contains(t, enabled, "nolintlint")
	_, err = lintersOf([]byte("linters: {default: all}"))
	assert.EqualError(t, err, ".golangci.yml: linters.default must be none, and linters.enable list the linters")
}
