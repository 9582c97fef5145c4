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

// checkSaved expects a snapshot in the bucket, and nothing else there but earlier ones, and nothing in the directory.
func checkSaved(t *testing.T, s *buckettest.S3, o SaveOptions, saved *Saved, earlier ...string) {
	t.Helper()
	size, hash, err := verify(filepath.Join(s.Folder, strings.TrimPrefix(saved.File, "s3://")))
	require.NoError(t, err)
	assert.Equal(t, saved.Bytes, size)
	assert.Equal(t, saved.SHA256, hash)
	assert.Empty(t, entries(t, o.ResumeDir), "left behind")
	assert.Empty(t, s.Incomplete(t, "backups"))
	files, err := List(t.Context(), ListOptions{Directory: o.Directory, Server: s.Server})
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		names = append(names, file.File)
	}
	assert.ElementsMatch(t, append(earlier, saved.File), names)
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
	uploadedOnly(t, o)
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

// uploadedOnly interrupts a command when all is in the bucket and nothing was read back.
func uploadedOnly(t *testing.T, o SaveOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(line string) {
		if strings.HasPrefix(line, "reading back") {
			cancel()
		}
	}
	_, err := Save(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
}

// changed changes what an interrupted command has kept.
func changed(t *testing.T, o SaveOptions, change func(*kept)) *kept {
	t.Helper()
	k, err := readKept(o.ResumeDir)
	require.NoError(t, err)
	change(k)
	require.NoError(t, k.write())
	return k
}

func older(k *kept) { k.Began = k.Began.Add(-resumeWithin) }

// TestWhatCannotContinueIsGivenUp tries uploads that are too old, or whose snapshot is damaged. A new snapshot takes the place of the kept one.
func TestWhatCannotContinueIsGivenUp(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, k *kept){
		"it is old":               func(_ *testing.T, k *kept) { older(k) },
		"the clock went back":     func(_ *testing.T, k *kept) { k.Began = k.Began.Add(time.Hour) },
		"the snapshot is damaged": func(t *testing.T, k *kept) { damage(t, k.file()) },
		"the snapshot is missing": func(t *testing.T, k *kept) { require.NoError(t, os.Remove(k.file())) },
	} {
		t.Run(name, func(t *testing.T) {
			s := buckettest.Start(t, "backups")
			endpoint, client, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
			fill(t, client, 3)
			o := resuming(t, s, endpoint)
			interrupted(t, s, o, 1<<20)
			require.Len(t, s.Incomplete(t, "backups"), 1)
			changed(t, o, func(k *kept) { change(t, k) })
			revision := put(t, client, "/later", "is in the new snapshot")
			saved, err := Save(t.Context(), o)
			require.NoError(t, err)
			assert.Equal(t, revision, saved.Revision)
			checkSaved(t, s, o, saved)
		})
	}
}

// TestAWholeSnapshotStaysInTheBucket ends commands when all is in the bucket. Then no command may remove it, unless it is damaged.
func TestAWholeSnapshotStaysInTheBucket(t *testing.T) {
	s := buckettest.Start(t, "backups")
	endpoint, client, _ := start(t, filepath.Join(t.TempDir(), "etcd"))
	fill(t, client, 3)
	// The names of two commands in the same second would be the same.
	const name = "/etcd-20260101T000000Z.db"
	begin := func(t *testing.T, folder string) (o SaveOptions, first string) {
		o = resuming(t, s, endpoint)
		o.Directory += folder
		first = o.Directory + name
		before := o
		before.Directory, before.File = "", first
		uploadedOnly(t, before)
		return o, first
	}
	for reason, lose := range map[string]func(t *testing.T, k *kept){
		"missing": func(t *testing.T, k *kept) { require.NoError(t, os.Remove(k.file())) },
		"damaged": func(t *testing.T, k *kept) { damage(t, k.file()) },
	} {
		t.Run("the kept snapshot is "+reason, func(t *testing.T) {
			o, first := begin(t, "/"+reason)
			changed(t, o, func(k *kept) { lose(t, k) })
			saved, err := Save(t.Context(), o)
			require.NoError(t, err)
			assert.Equal(t, first, saved.File, "the command before saved it")
			checkSaved(t, s, o, saved)
		})
	}
	for reason, change := range map[string]func(k *kept){
		"old":         older,
		"from-future": func(k *kept) { k.Began = k.Began.Add(time.Hour) },
	} {
		t.Run("it is "+reason, func(t *testing.T) {
			o, first := begin(t, "/"+reason)
			changed(t, o, change)
			revision := put(t, client, "/later", reason)
			saved, err := Save(t.Context(), o)
			require.NoError(t, err)
			assert.Equal(t, revision, saved.Revision, "a new snapshot")
			checkSaved(t, s, o, saved, first)
		})
	}
	t.Run("it is old, and damaged there", func(t *testing.T) {
		o, first := begin(t, "/damaged-there")
		changed(t, o, older)
		damage(t, filepath.Join(s.Folder, strings.TrimPrefix(first, "s3://")))
		saved, err := Save(t.Context(), o)
		require.NoError(t, err)
		checkSaved(t, s, o, saved)
	})
	t.Run("it is old, and cannot be read there", func(t *testing.T) {
		o, first := begin(t, "/unreadable")
		changed(t, o, older)
		o.Progress = func(line string) {
			if line == "reading back "+first {
				require.NoError(t, os.Remove(filepath.Join(s.Folder, strings.TrimPrefix(first, "s3://"))))
			}
		}
		saved, err := Save(t.Context(), o)
		require.NoError(t, err, "a new snapshot does not wait for the old one")
		checkSaved(t, s, o, saved)
	})
	t.Run("it is old, and has a name of its own", func(t *testing.T) {
		o, first := begin(t, "/one-name")
		o.Directory, o.File = "", first
		changed(t, o, older)
		_, err := Save(t.Context(), o)
		require.EqualError(t, err, first+" exists, and is not overwritten")
		files, err := List(t.Context(), ListOptions{Directory: strings.TrimSuffix(first, name), Server: s.Server})
		require.NoError(t, err)
		assert.Len(t, files, 1)
	})
}

// A command may end at any time. Without its state, a snapshot is of no upload.
func TestTheStateOfAnUploadEndsBeforeItsSnapshot(t *testing.T) {
	k := &kept{dir: t.TempDir()}
	require.NoError(t, os.MkdirAll(filepath.Join(k.dir, keptState, "full"), 0o700))
	require.NoError(t, os.WriteFile(k.file(), nil, 0o600))
	require.Error(t, k.remove())
	assert.FileExists(t, k.file())
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
