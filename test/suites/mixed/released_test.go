// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package mixed

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// repository is a repository in which each commit has another reference.
type repository struct {
	*testing.T
	folder string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	r.git("init", "--quiet")
	require.NoError(t, os.Mkdir(filepath.Join(r.folder, "proto"), 0o700))
	return r
}

func (r repository) git(args ...string) {
	r.Helper()
	_, err := git(r.folder, append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	require.NoError(r, err)
}

func (r repository) commit(released string) {
	r.Helper()
	require.NoError(r, os.WriteFile(filepath.Join(r.folder, reference), []byte("# the last one\n"+released+"\n"), 0o600))
	r.git("add", ".")
	r.git("commit", "--quiet", "--allow-empty", "--message=release "+released)
}

func TestTheReleaseIsTheLastOne(t *testing.T) {
	r := newRepository(t)
	r.commit("v0.1.0")
	r.git("tag", "v0.1.0")
	r.commit("v0.1.0")
	release, err := unpack(r.folder, t.TempDir())
	require.NoError(t, err)
	assert.Equal(t, "v0.1.0", release)

	r.git("tag", "v0.2.0")
	r.git("tag", "v0.3.0-rc.1", "HEAD^")
	_, err = lastRelease(r.folder)
	require.NoError(t, err, "the commit of a release is compared with the release before")
	r.commit("v0.1.0 ")
	_, err = lastRelease(r.folder)
	require.ErrorContains(t, err, "names v0.1.0, and v0.2.0 was released since")
	r.commit("v0.2.0")
	_, err = lastRelease(r.folder)
	require.NoError(t, err)
	r.commit("")
	_, err = lastRelease(r.folder)
	require.ErrorContains(t, err, "names 0 releases")
}

func TestWithoutHistoryNothingIsUnpacked(t *testing.T) {
	r := newRepository(t)
	r.commit("v0.1.0")
	_, err := unpack(r.folder, t.TempDir())
	require.ErrorContains(t, err, "git fetch --tags --unshallow")
	_, err = unpack(t.TempDir(), t.TempDir())
	require.Error(t, err, "no repository")
}
