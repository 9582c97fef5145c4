// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package privatedir

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDirectories(t *testing.T) {
	for name, test := range map[string]struct {
		before fs.FileMode // 0 is a missing directory
		empty  bool
		refuse bool
		checks bool // whether Check trusts what is in it
		after  fs.FileMode
	}{
		"missing":               {after: 0o700, checks: true},
		"private":               {before: 0o700, after: 0o700, checks: true},
		"others may read":       {before: 0o755, after: 0o700, checks: true},
		"the group may write":   {before: 0o770, after: 0o770, refuse: true},
		"all may write":         {before: 0o777, after: 0o777, refuse: true},
		"all may write, sticky": {before: 0o777 | fs.ModeSticky, after: 0o777, refuse: true},
		"empty, all may write":  {before: 0o777, empty: true, after: 0o700},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dir")
			if test.before != 0 {
				require.NoError(t, os.Mkdir(path, 0o700))
				if !test.empty {
					require.NoError(t, os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
				}
				require.NoError(t, os.Chmod(path, test.before))
			}
			assert.Equal(t, test.checks, Check(path) == nil, "trusted before")
			err := Make(path)
			if test.refuse {
				assert.ErrorContains(t, err, "others may write to directory "+path)
			} else {
				require.NoError(t, err)
			}
			info, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, test.after, info.Mode().Perm())
			assert.Equal(t, !test.refuse, Check(path) == nil, "trusted after")
		})
	}
}

func TestDirectoriesOfOthersAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.Mkdir(path, 0o755))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(path, 65534, -1))
	} else {
		path = "/" // root's
	}
	for name, try := range map[string]func(string) error{"Make": Make, "Check": Check} {
		assert.ErrorContains(t, try(path), "directory "+path+" belongs to user", name)
	}
}
