// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs follows the tutorials of the docs on this machine.
package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework/tutorial"
)

const extend = "../../../docs/extend.md"

// e2e/extend follows the rest of the page.
func TestExtendOnOneMachine(t *testing.T) {
	blocks, err := tutorial.Read(extend, "Write it", "Give others access")
	require.NoError(t, err)
	tutorial.NewReader(t, tutorial.Environment(t, nil)).Follow(blocks)
}

// What is below the tutorial has no commands, which no test would run.
func TestExtendHasNoOtherCommands(t *testing.T) {
	text, err := os.ReadFile(extend)
	require.NoError(t, err)
	blocks, err := tutorial.Read(extend, "Write it", "Watch over it")
	require.NoError(t, err)
	followed := 0
	for _, block := range blocks {
		if block.Language == "sh" {
			followed++
		}
	}
	assert.Equal(t, strings.Count(string(text), "\n```sh\n"), followed, "blocks of sh in the tutorial and on the page")
	assert.NotRegexp(t, `(?m)^ {4}\$? ?(tripod|kubectl|helm|make|go|bin/\S+) `, string(text), "an indented command")
}
