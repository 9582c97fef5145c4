// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework/tutorial"
)

// TestPartitionsOnOneMachine divides custom resources, freezes one partition, and puts them together again.
func TestPartitionsOnOneMachine(t *testing.T) {
	blocks, err := tutorial.Read("../../../docs/partitions.md", "Divide", "Put them together")
	require.NoError(t, err)
	tutorial.NewReader(t, tutorial.Environment(t, nil)).Follow(blocks)
}
