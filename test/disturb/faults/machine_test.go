// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClustersShareNothing gives each cluster names and addresses that no other has, and again those of one that is gone.
func TestClustersShareNothing(t *testing.T) {
	one, other, later := &machine{}, &machine{}, &machine{}
	require.NoError(t, one.lock())
	require.NoError(t, other.lock())
	t.Cleanup(func() { other.locked.Close() })
	assert.NotEqual(t, one.address(gateway), other.address(gateway))
	assert.NotEqual(t, one.object("core-0"), other.object("core-0"))
	assert.NotEqual(t, one.inRoot(), other.inRoot())

	require.NoError(t, one.locked.Close())
	require.NoError(t, later.lock())
	t.Cleanup(func() { later.locked.Close() })
	assert.NotEqual(t, other.number, later.number)
	assert.LessOrEqual(t, later.number, one.number, "the first that is free")
}
