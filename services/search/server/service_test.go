// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDatabaseIsInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "database")
	require.NoError(t, os.WriteFile(file, []byte("postgres://user:password@host/database\n"), 0o600))
	for name, test := range map[string]struct {
		flags       [2]string // --database, --database-file
		want, wrong string
	}{
		"in a flag":       {flags: [2]string{"sqlite:x", ""}, want: "sqlite:x"},
		"in a file":       {flags: [2]string{"", file}, want: "postgres://user:password@host/database"},
		"in both":         {flags: [2]string{"sqlite:x", file}, wrong: "--database-file takes the place of --database"},
		"in no such file": {flags: [2]string{"", file + "-missing"}, wrong: "--database-file: open "},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := location(test.flags[0], test.flags[1])
			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestRoles(t *testing.T) {
	for _, right := range [][]string{{"serve"}, {"sync"}, {"sync", "serve"}} {
		assert.NoError(t, checkRoles(right))
	}
	assert.ErrorContains(t, checkRoles(nil), "--roles must name serve, sync or both")
	assert.ErrorContains(t, checkRoles([]string{"serve", "copy"}), `--roles: "copy" is neither serve nor sync`)
}
