// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket/buckettest"
	"github.com/tripod-k8s/tripod/local/etcd/embedded"
)

// restoring returns options that restore into a new directory.
func restoring(t *testing.T, s *buckettest.S3, location string) RestoreOptions {
	return RestoreOptions{File: location, Server: s.Server, DataDir: filepath.Join(t.TempDir(), "below", "data"), Name: embedded.MemberName,
		InitialAdvertisePeerURLs: []string{embedded.PeerURL}, InitialClusterToken: "new", BumpRevision: 1000}
}

// entries returns the names of the files in a folder.
func entries(t *testing.T, folder string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	for _, entry := range all {
		names = append(names, entry.Name())
	}
	return names
}

// fill writes random-looking values of some MiB, so that an upload has parts.
func fill(t *testing.T, client *clientv3.Client, mebibytes int) {
	t.Helper()
	for i := range mebibytes {
		put(t, client, "/fill/"+string(rune('a'+i)), strings.Repeat(string(rune('a'+i)), 1<<20))
	}
}

func TestEtcdIsRestoredFromABucket(t *testing.T) {
	s3 := buckettest.Start(t, "backups")
	t.Setenv("TMPDIR", t.TempDir())
	url, client, stop := start(t, filepath.Join(t.TempDir(), "first"))
	fill(t, client, 20)
	want, revision := all(t, client)
	o := SaveOptions{Endpoints: []string{url}, Server: s3.Server, Directory: "s3://backups/control/tripod", Name: "etcd", Keep: 3, Progress: quiet}
	s3.Relay.Cut(2, 4<<20)
	saved, err := Save(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, s3.Relay.Left(), "no connection was cut")
	stop()
	assert.Equal(t, revision, saved.Revision)
	assert.NotEmpty(t, saved.ClusterID)
	assert.Empty(t, entries(t, os.TempDir()), "left behind")
	files, err := List(t.Context(), ListOptions{Directory: o.Directory, Name: "etcd", Server: s3.Server})
	require.NoError(t, err)
	require.Len(t, files, 1)
	assert.Equal(t, saved.File, files[0].File)
	assert.Equal(t, saved.Bytes, files[0].Bytes)

	s3.Relay.Cut(2, 4<<20)
	to := restoring(t, s3, saved.File)
	require.NoError(t, Restore(t.Context(), to))
	require.Zero(t, s3.Relay.Left(), "no connection was cut")
	assert.Equal(t, []string{"data"}, entries(t, filepath.Dir(to.DataDir)), "left behind")
	_, client, _ = start(t, to.DataDir)
	got, now := all(t, client)
	assert.Equal(t, want, got)
	assert.Greater(t, now, revision)
}

func TestNewestSnapshotsInABucketAreKept(t *testing.T) {
	s3 := buckettest.Start(t, "backups")
	url, _, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
	folder := filepath.Join(s3.Folder, "backups", "control", "tripod")
	others := []string{"other-20250101T000000Z.db", "etcd-extensions-20250101T000000Z.db", "etcd-notes.db", "etcd-20250101T000000Z.db.bak",
		"below/etcd-20250101T000000Z.db", "../tripod2/etcd-20250101T000000Z.db", "../etcd-20250101T000000Z.db"}
	old := []string{"etcd-20250101T000000Z.db", "etcd-20250102T000000Z.db", "etcd-20250103T000000Z.db"}
	for _, name := range append(others, old...) {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("a"), 0o600))
	}
	saved, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, Server: s3.Server, Directory: "s3://backups/control/tripod/", Name: "etcd",
		Keep: 2, Progress: quiet})
	require.NoError(t, err)
	const removed = "s3://backups/control/tripod/"
	assert.Equal(t, []string{removed + old[0], removed + old[1]}, saved.Removed)
	for _, name := range append(others, old[2], strings.TrimPrefix(saved.File, removed)) {
		assert.FileExists(t, filepath.Join(folder, name))
	}
	files, err := List(t.Context(), ListOptions{Directory: "s3://backups/control/tripod", Name: "etcd", Server: s3.Server})
	require.NoError(t, err)
	require.Len(t, files, 2)
	assert.Equal(t, removed+old[2], files[0].File)
	files, err = List(t.Context(), ListOptions{Directory: "s3://backups/control/tripod", Server: s3.Server})
	require.NoError(t, err)
	assert.Len(t, files, 5, "all files that end as snapshots do")
}

func TestWhatCannotBeSavedToABucketLeavesNothing(t *testing.T) {
	s3 := buckettest.Start(t, "backups")
	t.Setenv("TMPDIR", t.TempDir())
	url, _, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
	objects := filepath.Join(s3.Folder, "backups")
	require.NoError(t, os.WriteFile(filepath.Join(objects, "exists.db"), []byte("mine"), 0o600))
	const location = "s3://backups/a.db"
	ctx, cancel := context.WithCancel(t.Context())
	for _, test := range []struct {
		name    string
		options SaveOptions
		ctx     context.Context
		want    string
	}{
		{name: "it exists", options: SaveOptions{File: "s3://backups/exists.db"}, want: "s3://backups/exists.db exists, and is not overwritten"},
		{name: "a folder", options: SaveOptions{File: "s3://backups/folder/"}, want: "names a folder"},
		{name: "two places", options: SaveOptions{File: location, Directory: "s3://backups"}, want: "say where to save"},
		{name: "no bucket", options: SaveOptions{Directory: "s3://others"}, want: "has no bucket others"},
		{name: "no etcd", options: SaveOptions{File: location, Endpoints: []string{"http://127.0.0.1:1"}}, want: "cannot be reached"},
		{name: "damaged there", options: SaveOptions{File: location, Progress: func(line string) {
			if strings.HasPrefix(line, "reading back") {
				damage(t, filepath.Join(objects, "a.db"))
			}
		}}, want: "the snapshot cannot be read back: s3://backups/a.db does not match the hash at its end: it is damaged"},
		{name: "stopped", ctx: ctx, options: SaveOptions{File: location, Progress: func(line string) {
			if strings.HasPrefix(line, "reading back") {
				cancel()
			}
		}}, want: "context canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := test.options
			o.Server = s3.Server
			if o.Progress == nil {
				o.Progress = quiet
			}
			if o.Endpoints == nil {
				o.Endpoints = []string{url}
			}
			if test.ctx == nil {
				test.ctx = t.Context()
			}
			_, err := Save(test.ctx, o)
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "\n")
			assert.NoFileExists(t, filepath.Join(objects, "a.db"))
			assert.Empty(t, entries(t, os.TempDir()))
		})
	}
	content, err := os.ReadFile(filepath.Join(objects, "exists.db"))
	require.NoError(t, err)
	assert.Equal(t, "mine", string(content))
}

func damage(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[len(content)/2] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

func TestWhatCannotBeRestoredFromABucketLeavesNothing(t *testing.T) {
	s3 := buckettest.Start(t, "backups")
	url, _, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
	const location = "s3://backups/a.db"
	_, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, Server: s3.Server, File: location, Progress: quiet})
	require.NoError(t, err)
	path := filepath.Join(s3.Folder, "backups", "a.db")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	check := func(location, want string) {
		t.Helper()
		o := restoring(t, s3, location)
		_, err := PlanRestore(t.Context(), o, false)
		require.ErrorContains(t, err, want, "the dry run")
		assert.Empty(t, entries(t, filepath.Dir(o.DataDir)))
		for name, err := range map[string]error{"Restore": Restore(t.Context(), o), "Replace": func() error { _, _, err := Replace(t.Context(), o); return err }()} {
			require.ErrorContains(t, err, want, name)
			assert.NotContains(t, err.Error(), "\n")
			assert.Empty(t, entries(t, filepath.Dir(o.DataDir)), name)
		}
	}
	check("s3://backups/none.db", "cannot use s3://backups/none.db: it does not exist")
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-100], 0o600))
	check(location, location+" has no hash at its end: it is not a whole snapshot")
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-512], 0o600))
	check(location, location+" does not match the hash at its end: it is damaged")
}

func TestADataDirectoryHasOneRestore(t *testing.T) {
	s3 := buckettest.Start(t, "backups")
	url, _, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
	const location = "s3://backups/a.db"
	_, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, Server: s3.Server, File: location, Progress: quiet})
	require.NoError(t, err)
	o := restoring(t, s3, location)
	o.OtherCluster = true
	second := make(chan error, 1)
	s3.Relay.OnSent(func(int64) { // the first one asks for the snapshot
		if _, err := os.Stat(o.DataDir + ".lock"); err != nil {
			return // the end of a connection that Save had
		}
		other := o
		other.File, other.RestoreName = filepath.Join(s3.Folder, "backups", "a.db"), "other"
		_, _, err := Replace(t.Context(), other)
		select {
		case second <- err:
		default:
		}
	})
	made, _, err := Replace(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, made)
	s3.Relay.OnSent(nil)
	require.EqualError(t, <-second, "another restore uses the data directory "+o.DataDir+": wait until it has ended")
	assert.Equal(t, []string{"data"}, entries(t, filepath.Dir(o.DataDir)), "left behind")
	o.RestoreName = "again"
	made, kept, err := Replace(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, made && kept != "", "the lock is still there")
}

func TestDryRunSaysWhatARestoreWouldDo(t *testing.T) {
	s3 := buckettest.Start(t, "backups")
	first := filepath.Join(t.TempDir(), "first")
	url, client, stop := start(t, first)
	revision := put(t, client, "/a", "1")
	const location = "s3://backups/a.db"
	saved, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, Server: s3.Server, File: location, Progress: quiet})
	require.NoError(t, err)
	o := restoring(t, s3, location)
	plan, err := PlanRestore(t.Context(), o, false)
	require.NoError(t, err)
	assert.Equal(t, &Plan{DataDir: o.DataDir, Snapshot: PlannedSnapshot{File: location, Bytes: saved.Bytes, SHA256: saved.SHA256,
		Revision: revision, NewRevision: revision + 1000, ClusterID: saved.ClusterID}}, plan)
	assert.Empty(t, entries(t, filepath.Dir(o.DataDir)))

	o.DataDir = first
	_, err = PlanRestore(t.Context(), o, false)
	require.ErrorContains(t, err, "is not empty")
	for _, replace := range []func() error{
		func() error { _, err := PlanRestore(t.Context(), o, true); return err },
		func() error { _, _, err := Replace(t.Context(), o); return err },
	} {
		require.ErrorContains(t, replace(), "an etcd uses the data directory "+first+": stop it first")
	}
	stop()
	plan, err = PlanRestore(t.Context(), o, true)
	require.NoError(t, err)
	require.NotNil(t, plan.Existing)
	assert.Equal(t, saved.ClusterID, plan.Existing.ClusterID)
	assert.Positive(t, plan.Existing.Bytes)
	assert.Contains(t, plan.Existing.KeptAs, first+".before-")
	assert.Equal(t, []string{"first"}, entries(t, filepath.Dir(first)))

	made, kept, err := Replace(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, made)
	assert.NotEmpty(t, kept)
	plan, err = PlanRestore(t.Context(), o, true)
	require.NoError(t, err)
	assert.True(t, plan.RestoredBefore)
}

// A snapshot in a file is read for its revision.
func TestDryRunOfAFile(t *testing.T) {
	dir := t.TempDir()
	url, client, _ := start(t, filepath.Join(dir, "etcd"))
	revision := put(t, client, "/a", "1")
	file := filepath.Join(dir, "a.db")
	saved, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, File: file, Progress: quiet})
	require.NoError(t, err)
	data := filepath.Join(dir, "data")
	plan, err := PlanRestore(t.Context(), RestoreOptions{File: file, DataDir: data, BumpRevision: 5}, true)
	require.NoError(t, err)
	assert.Equal(t, PlannedSnapshot{File: file, Bytes: saved.Bytes, SHA256: saved.SHA256, Revision: revision, NewRevision: revision + 5}, plan.Snapshot)
	assert.Nil(t, plan.Existing)
	assert.NoDirExists(t, data)
}

func TestDataOfAnotherEtcdIsReplacedOnlyOnDemand(t *testing.T) {
	s3 := buckettest.Start(t, "backups")
	url, _, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
	const location = "s3://backups/a.db"
	_, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, Server: s3.Server, File: location, Progress: quiet})
	require.NoError(t, err)
	o := restoring(t, s3, location)
	o.InitialClusterToken = "another"
	require.NoError(t, Restore(t.Context(), o))
	_, _, err = Replace(t.Context(), o)
	require.ErrorContains(t, err, "--other-cluster restores it nevertheless")
	assert.Equal(t, []string{"data"}, entries(t, filepath.Dir(o.DataDir)))
	o.OtherCluster = true
	made, _, err := Replace(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, made)
}
