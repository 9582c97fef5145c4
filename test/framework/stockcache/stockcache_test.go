// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package stockcache

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestResultsAreKeptByVersionAndCases(t *testing.T) {
	dir := t.TempDir()
	open := func(version string) *Cache {
		t.Helper()
		binary := filepath.Join(t.TempDir(), "kube-apiserver")
		require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\necho Kubernetes "+version+"\n"), 0o700))
		cache, err := Open(t.Context(), dir, binary)
		require.NoError(t, err)
		return cache
	}
	kept := map[string]bool{"a": true, "b": false}
	require.NoError(t, open("v1.36.3").Put([]string{"a", "b"}, kept))
	for _, test := range []struct {
		name, version string
		cases         []string
		want          map[string]bool
	}{
		{"the same", "v1.36.3", []string{"a", "b"}, kept},
		{"in another order", "v1.36.3", []string{"b", "a"}, kept},
		{"fewer cases", "v1.36.3", []string{"a"}, nil},
		{"another version", "v1.36.4", []string{"a", "b"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got map[string]bool
			found, err := open(test.version).Get(test.cases, &got)
			require.NoError(t, err)
			if diff := cmp.Diff(test.want, got); diff != "" || found != (test.want != nil) {
				t.Errorf("found %v, %s", found, diff)
			}
		})
	}
}
