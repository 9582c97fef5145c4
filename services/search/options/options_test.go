// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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
			got, err := (&Options{Database: test.flags[0], DatabaseFile: test.flags[1]}).Location()
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
		assert.NoError(t, validateRoles(right))
	}
	assert.ErrorContains(t, validateRoles(nil), "--roles must name serve, sync or both")
	assert.ErrorContains(t, validateRoles([]string{"serve", "copy"}), `--roles: "copy" is neither serve nor sync`)
}

func TestEveryWrongFlagIsNamed(t *testing.T) {
	o := New()
	assert.NoError(t, o.Validate())
	o.Roles, o.AnswerMemory, o.HistoryTTL, o.Database, o.DatabaseFile = []string{"copy"}, 1, time.Second, "sqlite:x", "y"
	err := o.Validate()
	for _, flag := range []string{"--roles", "--answer-memory", "--history-ttl", "--database-file"} {
		assert.ErrorContains(t, err, flag)
	}
}
