// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tutorial

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/released"
)

// Environment is that of a user who has Tripod of this checkout in the PATH, and more programs: shell scripts by name. Its modules are as
// if they  were released, and `tripod up` serves at a free port.
func Environment(t testing.TB, programs map[string]string) []string {
	t.Helper()
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	port, err := framework.FreePort()
	require.NoError(t, err)
	folder := t.TempDir()
	program := func(name, script string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	program("tripod", fmt.Sprintf("[ \"$1\" != up ] || { shift; set -- up --port=%d \"$@\"; }\nexec %q \"$@\"", port, filepath.Join(root, "bin", "tripod")))
	for name, script := range programs {
		program(name, script)
	}
	var all []string
	for _, variable := range released.Environment(t) {
		if !strings.HasPrefix(variable, "KUBECONFIG=") {
			all = append(all, variable)
		}
	}
	return append(all,
		"PATH="+folder+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "TRIPOD_DATA_DIR="+filepath.Join(t.TempDir(), "data"), "TRIPOD="+root,
		"GOCACHE="+released.GoEnv(t, "GOCACHE"))
}
