// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework/tutorial"
)

// TestAGroupMovesToAServiceOnOneMachine moves a group to a service of its reader, and back.
func TestAGroupMovesToAServiceOnOneMachine(t *testing.T) {
	blocks, err := tutorial.Read("../../../docs/crd-to-service.md", "Move a group", "Move a group")
	require.NoError(t, err)
	tutorial.NewReader(t, tutorial.Environment(t, nil)).Follow(blocks)
}
