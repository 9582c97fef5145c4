// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outside builds API services as somebody does who has nothing of this repository but released modules.
package outside

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework/released"
)

const root = "../../.."

func TestAPIServicesAreBuiltOutsideOfTheRepository(t *testing.T) {
	program, env := t.TempDir(), released.Environment(t)
	require.NoError(t, os.CopyFS(program, os.DirFS(filepath.Join(root, "examples/wardle"))))
	released.Output(t, program, env, "go", "build", "-mod=mod", "-o", "wardle", ".")
	help := released.Output(t, program, nil, "./wardle", "--help")
	for _, flag := range []string{"--service-cert-file", "--etcd-servers", "--kubeconfig"} {
		assert.Contains(t, help, flag)
	}
	assert.NotContains(t, released.Output(t, program, env, "go", "list", "-m", "all"), "k8s.io/kubernetes ", "required modules")
}
