// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket/buckettest"
)

// resuming returns options that keep a snapshot until its upload has ended.
func resuming(t *testing.T, s *buckettest.S3, endpoint string) SaveOptions {
	t.Helper()
	return SaveOptions{
		Endpoints: []string{endpoint}, Server: s.Server, Directory: "s3://backups/tripod", Name: "etcd",
		ResumeDir: filepath.Join(t.TempDir(), "upload"), Progress: quiet,
	}
}

// interrupted interrupts a command when so many bytes were sent.
func interrupted(t *testing.T, s *buckettest.S3, o SaveOptions, after int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.Relay.Sent.Store(0)
	s.Relay.OnSent(func(sent int64) {
		if sent > after {
			cancel()
		}
	})
	_, err := Save(ctx, o)
	s.Relay.OnSent(nil)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "the same command continues")
	assert.NotContains(t, err.Error(), "\n")
	assert.ElementsMatch(t, []string{keptSnapshot, keptState}, entries(t, o.ResumeDir))
}

// checkSaved expects a snapshot in the bucket, and nothing else there or in the directory.
func checkSaved(t *testing.T, s *buckettest.S3, o SaveOptions, saved *Saved) {
	t.Helper()
	size, hash, err := verify(filepath.Join(s.Folder, strings.TrimPrefix(saved.File, "s3://")))
	require.NoError(t, err)
	assert.Equal(t, saved.Bytes, size)
	assert.Equal(t, saved.SHA256, hash)
	assert.Empty(t, entries(t, o.ResumeDir), "left behind")
	assert.Empty(t, s.Incomplete(t, "backups"))
	files, err := List(t.Context(), ListOptions{Directory: o.Directory, Server: s.Server})
	require.NoError(t, err)
	assert.Len(t, files, 1)
}

func TestAnInterruptedUploadContinues(t *testing.T) {
	s := buckettest.Start(t, "backups")
	endpoint, client, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
	for i := range 100 {
		put(t, client, fmt.Sprintf("/fill/%d", i), strings.Repeat("x", 1<<20))
	}
	o := resuming(t, s, endpoint)
	interrupted(t, s, o, 85<<20)
	k, err := readKept(o.ResumeDir)
	require.NoError(t, err)
	put(t, client, "/later", "is not in this snapshot")
	s.Relay.Sent.Store(0)
	var lines []string
	o.Progress = func(line string) { lines = append(lines, line) }
	saved, err := Save(t.Context(), o)
	require.NoError(t, err)
	assert.Contains(t, lines[0], "continuing the upload of "+k.Saved.File)
	assert.Equal(t, k.Saved, *saved)
	assert.Less(t, s.Relay.Sent.Load(), saved.Bytes-16<<20, "parts that had arrived were sent again")
	checkSaved(t, s, o, saved)
}

// TestAnUploadThatWasNotReadBackIsReadBack interrupts a command when all is there.
func TestAnUploadThatWasNotReadBackIsReadBack(t *testing.T) {
	s := buckettest.Start(t, "backups")
	endpoint, client, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
	fill(t, client, 3)
	o := resuming(t, s, endpoint)
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(line string) {
		if strings.HasPrefix(line, "reading back") {
			cancel()
		}
	}
	_, err := Save(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	o.Progress = quiet
	s.Relay.Sent.Store(0)
	saved, err := Save(t.Context(), o)
	require.NoError(t, err)
	assert.Less(t, s.Relay.Sent.Load(), int64(1<<20), "it was sent again")
	checkSaved(t, s, o, saved)

	o.ResumeDir = filepath.Join(t.TempDir(), "other")
	o.Progress = func(line string) {
		if file, ok := strings.CutPrefix(line, "reading back s3://"); ok {
			damage(t, filepath.Join(s.Folder, file))
		}
	}
	o.Directory, o.File = "", "s3://backups/damaged.db"
	_, err = Save(t.Context(), o)
	require.ErrorContains(t, err, "it is damaged")
	assert.NotContains(t, err.Error(), "the same command continues")
	assert.Empty(t, entries(t, o.ResumeDir))
	assert.NoFileExists(t, filepath.Join(s.Folder, "backups", "damaged.db"))
}

// TestWhatCannotContinueIsGivenUp tries uploads that are too old, or whose snapshot is damaged. A new snapshot takes the place of the kept one.
func TestWhatCannotContinueIsGivenUp(t *testing.T) {
	for name, test := range map[string]struct {
		// uploaded says that all of it was there, but was not read back.
		uploaded bool
		change   func(t *testing.T, k *kept)
	}{
		"it is old":                         {change: func(_ *testing.T, k *kept) { k.Began = k.Began.Add(-resumeWithin) }},
		"the clock went back":               {change: func(_ *testing.T, k *kept) { k.Began = k.Began.Add(time.Hour) }},
		"the snapshot is damaged":           {change: func(t *testing.T, k *kept) { damage(t, k.file()) }},
		"the snapshot is missing":           {change: func(t *testing.T, k *kept) { require.NoError(t, os.Remove(k.file())) }},
		"it is old, and all of it is there": {uploaded: true, change: func(_ *testing.T, k *kept) { k.Began = k.Began.Add(-resumeWithin) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := buckettest.Start(t, "backups")
			endpoint, client, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
			fill(t, client, 3)
			o := resuming(t, s, endpoint)
			if test.uploaded {
				ctx, cancel := context.WithCancel(t.Context())
				o.Progress = func(line string) {
					if strings.HasPrefix(line, "reading back") {
						cancel()
					}
				}
				_, err := Save(ctx, o)
				require.ErrorIs(t, err, context.Canceled)
				o.Progress = quiet
			} else {
				interrupted(t, s, o, 1<<20)
				require.Len(t, s.Incomplete(t, "backups"), 1)
			}
			k, err := readKept(o.ResumeDir)
			require.NoError(t, err)
			test.change(t, k)
			require.NoError(t, k.write())
			revision := put(t, client, "/later", "is in the new snapshot")
			saved, err := Save(t.Context(), o)
			require.NoError(t, err)
			assert.Equal(t, revision, saved.Revision)
			checkSaved(t, s, o, saved)
		})
	}
}

func TestADirectoryIsForOneUpload(t *testing.T) {
	s := buckettest.Start(t, "backups")
	endpoint, client, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
	fill(t, client, 3)
	o := resuming(t, s, endpoint)
	interrupted(t, s, o, 1<<20)
	refused := func(change func(*SaveOptions), want string) {
		t.Helper()
		other := o
		change(&other)
		_, err := Save(t.Context(), other)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "\n")
	}
	const want = "finish that one, or use another directory"
	refused(func(o *SaveOptions) { o.Name = "etcd-extensions" }, want)
	refused(func(o *SaveOptions) { o.Directory = "s3://backups/tripod/below" }, want)
	refused(func(o *SaveOptions) { o.Directory, o.File = "", "s3://backups/a.db" }, want)
	refused(func(o *SaveOptions) { o.Directory, o.File = "", filepath.Join(t.TempDir(), "a.db") }, "--resume-dir is for snapshots in a bucket")
	unlock, err := lock(filepath.Join(o.ResumeDir, keptLock))
	require.NoError(t, err)
	refused(func(*SaveOptions) {}, "another command uploads from "+o.ResumeDir)
	unlock()
	state := filepath.Join(o.ResumeDir, keptState)
	content, err := os.ReadFile(state)
	require.NoError(t, err)
	require.True(t, json.Valid(content))
	require.NoError(t, os.WriteFile(state, content[:len(content)/2], 0o600))
	refused(func(*SaveOptions) {}, "cannot read which upload is to be continued")
	require.NoError(t, os.WriteFile(state, content, 0o600))
	saved, err := Save(t.Context(), o)
	require.NoError(t, err)
	checkSaved(t, s, o, saved)
}
