// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestManifestKeepsAllButTheImage(t *testing.T) {
	manifest := []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: kube-apiserver}\nspec:\n  containers:\n  - name: kube-apiserver\n" +
		"    image: a\n    command: [kube-apiserver, --secure-port=6443]\n  hostNetwork: true\n")
	got, err := WithImage(manifest, "b", "--emulated-version=1.34")
	require.NoError(t, err)
	for _, want := range []string{"image: b\n", "- --secure-port=6443\n", "- --emulated-version=1.34\n", "hostNetwork: true\n"} {
		assert.Contains(t, string(got), want)
	}
	image, err := ImageOf(got)
	require.NoError(t, err)
	assert.Equal(t, "b", image)
}
