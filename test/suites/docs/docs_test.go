// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs follows the tutorials of the docs on this machine.
package docs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework/tutorial"
)

// e2e/extend follows the rest of the page.
func TestExtendOnOneMachine(t *testing.T) {
	blocks, err := tutorial.Read("../../../docs/extend.md", "Write it", "Give others access")
	require.NoError(t, err)
	tutorial.NewReader(t, tutorial.Environment(t, nil)).Follow(blocks)
}
