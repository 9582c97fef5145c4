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
	o.Database = "sqlite:x"
	assert.NoError(t, o.Validate())
	o.Roles, o.AnswerMemory, o.HistoryTTL, o.EventsTTL = []string{"copy"}, 1, time.Second, -time.Hour
	o.Members.Hub, o.Members.SecretNamespace, o.DatabaseFile = "a/b", "a.b", "y"
	err := o.Validate()
	for _, flag := range []string{
		"--roles", "--answer-memory", "--history-ttl", "--events-ttl", "--hub-cluster", "--secret-namespace", "--database-file",
	} {
		assert.ErrorContains(t, err, flag)
	}
}

func TestTheDatabaseIsJudgedBeforeItIsOpened(t *testing.T) {
	t.Chdir(t.TempDir())
	for location, wrong := range map[string]string{
		"":                               "--database: the database must be sqlite:FILE, postgres:",
		"oracle://host/search":           "--database: the database must be sqlite:FILE, postgres:",
		"sqlite:":                        "--database: sqlite: needs a file",
		"postgres://host:port/search":    "--database: postgres: ",
		"mysql://user:pa%zz@host/search": "--database: mysql: the URL of the database cannot be parsed",
		"mysql://host/search?tls=none":   "--database: mysql: ",
		"sqlite:search.db":               "",
		"postgres://u:p@host/search":     "",
		"mysql://u:p@host/search":        "",
	} {
		o := New()
		o.Database = location
		if err := o.Validate(); wrong != "" {
			assert.ErrorContains(t, err, wrong, location)
		} else {
			assert.NoError(t, err, location)
		}
	}
	assert.NoFileExists(t, "search.db", "it is only judged")
	require.NoError(t, os.WriteFile("database", []byte("redis:x"), 0o600))
	o := New()
	o.DatabaseFile = "database"
	assert.ErrorContains(t, o.Validate(), "--database-file: the database must be")
}
