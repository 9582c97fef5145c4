// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/tutorial"
)

// TestSearchOnOneMachine asks the eighteen questions of the page.
func TestSearchOnOneMachine(t *testing.T) {
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	blocks, err := tutorial.Read("../../../docs/search.md", "Start", "Eighteen questions")
	require.NoError(t, err)
	reader := tutorial.NewReader(t, tutorial.Environment(t, map[string]string{"kubectl": `exec tripod kubectl "$@"`}))
	reader.Dir = root
	reader.Follow(blocks)
}
