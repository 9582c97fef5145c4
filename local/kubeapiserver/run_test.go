// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnEgressConfigurationThatCannotBeReadIsLeftToTheServices(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "egress.yaml")
	require.NoError(t, os.WriteFile(wrong, []byte("apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections: [not a selection]\n"), 0o600))
	assert.True(t, hasProxyForEtcd(wrong))
	assert.True(t, hasProxyForEtcd("/does/not/exist"))
	assert.False(t, hasProxyForEtcd(""))
}
