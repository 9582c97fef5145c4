// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClustersShareNothing checks that each cluster has names and addresses of its own.
func TestClustersShareNothing(t *testing.T) {
	one, other := &machine{}, &machine{}
	for _, m := range []*machine{one, other} {
		require.NoError(t, m.lock())
		t.Cleanup(func() { m.locked.Close() })
	}
	assert.NotEqual(t, one.address(gateway), other.address(gateway))
	assert.NotEqual(t, one.object("core-0"), other.object("core-0"))
	assert.NotEqual(t, one.inRoot(), other.inRoot())
}
