// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/version"
)

func TestProgramsOfAnotherVersionMustEmulate(t *testing.T) {
	of := version.MustParseGeneric
	own := of("1.36")
	type programs map[string]*version.Version
	alike := programs{"tripod-core": own, "tripod-extensions": own}
	newer := programs{"tripod-core": of("1.37"), "tripod-extensions": own}
	for name, tc := range map[string]struct {
		programs programs
		emulate  bool
		want     string
	}{
		"of the same version":            {alike, false, ""},
		"of the same version, emulating": {alike, true, ""},
		"that do not tell":               {nil, false, ""},
		"newer, emulating":               {newer, true, ""},
		"newer": {newer, false, "tripod-core is of Kubernetes 1.37, and the running tripod is of 1.36: " +
			"start tripod with --emulated-version=1.36 until all programs are replaced"},
		"older": {programs{"tripod-core": of("1.35")}, false, "tripod-core is of Kubernetes 1.35, and the running tripod is of 1.36: " +
			"start tripod with --emulated-version=1.35 until all programs are replaced"},
		"two further": {programs{"tripod-core": of("1.38")}, true, "tripod is of Kubernetes 1.36, tripod-core of 1.38: upgrade by one minor version at a time"},
		"of three versions": {programs{"tripod-core": of("1.37"), "tripod-extensions": of("1.35")}, true,
			"tripod is of Kubernetes 1.36, tripod-core of 1.37, tripod-extensions of 1.35: upgrade by one minor version at a time"},
	} {
		t.Run(name, func(t *testing.T) {
			err := compatible(own, tc.programs, tc.emulate)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestAProgramSaysItsVersionOfKubernetes(t *testing.T) {
	of := func(version string) *debug.Module { return &debug.Module{Path: versionModule, Version: version} }
	for name, tc := range map[string]struct {
		module *debug.Module
		want   string
	}{
		"as required":     {of("v0.37.2"), "1.37"},
		"as replaced":     {&debug.Module{Path: versionModule, Version: "v0.0.0", Replace: of("v0.36.3")}, "1.36"},
		"before it":       {of("v0.38.0-alpha.0"), "1.38"},
		"from a folder":   {of("(devel)"), ""},
		"of another time": {of("v1.2.3"), ""},
		"another module":  {&debug.Module{Path: "k8s.io/api", Version: "v0.37.2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := kubernetesAmong([]*debug.Module{{Path: "example.com/first", Version: "v0.1.0"}, tc.module})
			if tc.want == "" {
				assert.Nil(t, got)
			} else if assert.NotNil(t, got) {
				assert.Equal(t, tc.want, got.String())
			}
		})
	}
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600))
	assert.Nil(t, kubernetesOf(script))
	assert.Nil(t, kubernetesOf(script+".missing"))
}
