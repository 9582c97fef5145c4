// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tripod-k8s/tripod/local/etcd/embedded"
	"github.com/tripod-k8s/tripod/local/etcd/embedded/embeddedtest"
)

// start runs an etcd on a directory and returns its URL, a client and what stops it.
func start(t *testing.T, dir string) (url string, client *clientv3.Client, stop func()) {
	t.Helper()
	url, stop = embeddedtest.Start(t, embedded.Options{DataDir: dir})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	// The client waits until etcd serves.
	if _, err := client.Get(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	return url, client, stop
}

func put(t *testing.T, client *clientv3.Client, key, value string) int64 {
	t.Helper()
	answer, err := client.Put(t.Context(), key, value)
	require.NoError(t, err)
	return answer.Header.Revision
}

func all(t *testing.T, client *clientv3.Client) (pairs []string, revision int64) {
	t.Helper()
	answer, err := client.Get(t.Context(), "", clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range answer.Kvs {
		pairs = append(pairs, string(kv.Key)+"="+string(kv.Value))
	}
	return pairs, answer.Header.Revision
}

func quiet(string) {}

func TestRestoredEtcdIsTheOneOfTheSnapshotAndGoesOnFromALaterRevision(t *testing.T) {
	dir := t.TempDir()
	url, client, stop := start(t, filepath.Join(dir, "first"))
	put(t, client, "/a", "1")
	put(t, client, "/b", "2")
	want, revision := all(t, client)
	file := filepath.Join(dir, "backup.db")
	saved, err := Save(t.Context(), SaveOptions{Endpoints: []string{"http://127.0.0.1:1", url}, File: file, Progress: quiet})
	require.NoError(t, err)
	if info, err := os.Stat(file); err != nil || info.Size() != saved.Bytes || saved.Revision != revision || len(saved.SHA256) != 64 {
		t.Errorf("saved %+v, file %v, revision %d", saved, info, revision)
	}
	put(t, client, "/b", "changed")
	put(t, client, "/c", "new")
	if _, err := client.Delete(t.Context(), "/a"); err != nil {
		t.Fatal(err)
	}
	_, last := all(t, client)
	stop()

	second := filepath.Join(dir, "second")
	options := RestoreOptions{File: file, DataDir: second, Name: embedded.MemberName,
		InitialAdvertisePeerURLs: []string{embedded.PeerURL}, InitialClusterToken: "new", BumpRevision: 1000}
	require.NoError(t, Restore(t.Context(), options))
	assert.ErrorContains(t, Restore(t.Context(), options), "is not empty: stop etcd", "restored twice")
	_, client, _ = start(t, second)
	got, now := all(t, client)
	assert.Equal(t, want, got, "restored")
	if now <= last {
		t.Errorf("the revision is %d, and was %d before", now, last)
	}
	// A watch from a revision of before the restore is compacted: its client has to list again.
	watching, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer := <-client.Watch(watching, "/", clientv3.WithPrefix(), clientv3.WithRev(last))
	assert.ErrorIs(t, answer.Err(), rpctypes.ErrCompacted, "a watch from revision %d", last)
	if next := put(t, client, "/d", "later"); next <= now {
		t.Errorf("the revision goes on with %d after %d", next, now)
	}
}

func TestDataIsReplacedOnceByEachSnapshotAndKept(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	save := func(name string) string {
		t.Helper()
		url, client, stop := start(t, data)
		defer stop()
		put(t, client, "/what", name)
		file := filepath.Join(dir, name+".db")
		if _, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, File: file, Progress: quiet}); err != nil {
			t.Fatal(err)
		}
		return file
	}
	first, second := save("first"), save("second")
	replace := func(file string) (made bool, kept string) {
		t.Helper()
		made, kept, err := Replace(t.Context(), RestoreOptions{File: file, DataDir: data, Name: embedded.MemberName,
			InitialAdvertisePeerURLs: []string{embedded.PeerURL}, InitialClusterToken: "new", BumpRevision: 1000})
		require.NoError(t, err)
		return made, kept
	}
	has := func(directory, want string) {
		t.Helper()
		_, client, stop := start(t, directory)
		defer stop()
		if got, _ := all(t, client); !slices.Equal(got, []string{"/what=" + want}) {
			t.Errorf("%s has %q, want %s", directory, got, want)
		}
	}
	// What an interrupted one has left disturbs no other.
	require.NoError(t, os.MkdirAll(filepath.Join(data+".restoring", "member", "wal"), 0o700))
	made, kept := replace(first)
	if !made || kept == "" {
		t.Fatalf("made: %v, kept: %q", made, kept)
	}
	has(data, "first")
	has(kept, "second")
	if made, kept := replace(first); made || kept != "" {
		t.Errorf("the same snapshot once more: made: %v, kept: %q", made, kept)
	}
	if err := os.RemoveAll(kept); err != nil { // two within one second would have one name
		t.Fatal(err)
	}
	if made, kept = replace(second); !made {
		t.Error("another snapshot does nothing")
	}
	has(data, "second")
	has(kept, "first")
	require.NoError(t, os.RemoveAll(data))
	if made, kept := replace(second); !made || kept != "" {
		t.Errorf("where nothing is: made: %v, kept: %q", made, kept)
	}
	has(data, "second")
}

// A crash of the machine must not leave the name of a restore without its data.
func TestARestoredDirectoryIsOnDisk(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	url, _, stop := start(t, data)
	file := filepath.Join(t.TempDir(), "backup.db")
	_, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, File: file, Progress: quiet})
	require.NoError(t, err)
	stop()
	o := RestoreOptions{File: file, DataDir: data, Name: embedded.MemberName, InitialAdvertisePeerURLs: []string{embedded.PeerURL}}
	var synced []string
	fail := true
	before := syncFile
	t.Cleanup(func() { syncFile = before })
	syncFile = func(f *os.File) error {
		if fail {
			return syscall.EIO
		}
		name, err := filepath.Rel(dir, f.Name())
		synced = append(synced, name)
		return errors.Join(err, before(f))
	}
	_, _, err = Replace(t.Context(), o)
	require.ErrorIs(t, err, syscall.EIO)
	assert.NoFileExists(t, filepath.Join(data, restoredFrom), "the old data is gone")
	fail = false
	made, _, err := Replace(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, made)
	assert.Equal(t, []string{"data.restoring/member/restored-from", "data.restoring/member/snap", "data.restoring/member/wal",
		"data.restoring/member", "data.restoring", "."}, synced)
}

// An etcd that starts while its data is replaced would go on with what is renamed. It waits instead: each etcd locks its log.
func TestNoEtcdStartsWithDataThatIsBeingReplaced(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	url, _, stop := start(t, data)
	file := filepath.Join(dir, "backup.db")
	_, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, File: file, Progress: quiet})
	require.NoError(t, err)
	stop()
	logs, err := filepath.Glob(filepath.Join(data, "member", "wal", "*.wal"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	tryToStart := func() error {
		lock, err := fileutil.TryLockFile(logs[0], os.O_WRONLY, fileutil.PrivateFileMode)
		if err == nil {
			err = lock.Close()
		}
		return err
	}
	require.NoError(t, tryToStart())
	before := syncFile
	t.Cleanup(func() { syncFile = before })
	tried := 0
	syncFile = func(f *os.File) error { // the new directory is complete, and not in its place
		if _, err := os.Stat(data); err == nil && tried == 0 {
			tried++
			require.ErrorIs(t, tryToStart(), fileutil.ErrLocked)
		}
		return before(f)
	}
	made, _, err := Replace(t.Context(), RestoreOptions{
		File: file, DataDir: data, Name: embedded.MemberName, InitialAdvertisePeerURLs: []string{embedded.PeerURL}, BumpRevision: 1,
	})
	require.NoError(t, err)
	assert.True(t, made)
	assert.Equal(t, 1, tried)
}

// Clients would see a resourceVersion again, with other content.
func TestRevisionsDoNotGoBack(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	url, client, stop := start(t, data)
	put(t, client, "/a", "1")
	file := filepath.Join(dir, "backup.db")
	saved, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, File: file, Progress: quiet})
	require.NoError(t, err)
	last := saved.Revision
	for range 10 {
		last = put(t, client, "/a", "2")
	}
	stop()
	o := RestoreOptions{File: file, DataDir: data, Name: embedded.MemberName, InitialAdvertisePeerURLs: []string{embedded.PeerURL}}
	o.BumpRevision = uint64(last - saved.Revision)
	for _, restore := range []func() error{
		func() error { _, err := PlanRestore(t.Context(), o, true); return err },
		func() error { _, _, err := Replace(t.Context(), o); return err },
	} {
		require.ErrorContains(t, restore(), fmt.Sprintf("give --bump-revision more than %d", o.BumpRevision))
	}
	_, client, stop = start(t, data)
	got, _ := all(t, client)
	stop()
	assert.Equal(t, []string{"/a=2"}, got)
	o.BumpRevision++
	made, _, err := Replace(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, made)
}

// Members with different data would not notice it.
func TestAnotherSnapshotThanTheOneThatWasCheckedIsRefused(t *testing.T) {
	dir := t.TempDir()
	url, _, _ := start(t, filepath.Join(dir, "etcd"))
	file := filepath.Join(dir, "backup.db")
	saved, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, File: file, Progress: quiet})
	require.NoError(t, err)
	o := RestoreOptions{File: file, DataDir: filepath.Join(dir, "data"), Name: embedded.MemberName, InitialAdvertisePeerURLs: []string{embedded.PeerURL}}
	o.SHA256 = strings.Repeat("0", 64)
	require.ErrorContains(t, Restore(t.Context(), o), "it is another snapshot than before")
	assert.NoDirExists(t, o.DataDir)
	o.SHA256 = saved.SHA256
	require.NoError(t, Restore(t.Context(), o))
}

// TestARestoreWithoutRoomBeginsNothing has a snapshot with a hole that is larger than any volume here.
func TestARestoreWithoutRoomBeginsNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "backup.db")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 8<<40))
	data := filepath.Join(dir, "volume", "data")
	o := RestoreOptions{File: file, DataDir: data, Name: "a", InitialAdvertisePeerURLs: []string{embedded.PeerURL}, SkipHashCheck: true}
	refused := func(volume string, err error) {
		t.Helper()
		require.ErrorContains(t, err, "the volume of "+volume+" has ")
		assert.ErrorContains(t, err, "needs 8388669 MiB: remove what earlier restores have kept there as data.before-TIME, or enlarge the volume")
	}
	_, err := PlanRestore(t.Context(), o, true)
	require.NoError(t, err, "a check of the snapshot alone, without a volume")
	refused(dir, Restore(t.Context(), o))
	volume := filepath.Dir(data)
	require.NoError(t, os.Mkdir(volume, 0o700))
	_, err = PlanRestore(t.Context(), o, true)
	refused(volume, err)
	_, _, err = Replace(t.Context(), o)
	refused(volume, err)
	assert.NoDirExists(t, data)
	assert.NoDirExists(t, data+".restoring")

	// Without a parent of its own, the working directory counts.
	here, available, err := availableBytes(".")
	require.NoError(t, err)
	assert.Equal(t, ".", here)
	assert.Positive(t, available)
}

func TestDamagedSnapshotIsRefused(t *testing.T) {
	dir := t.TempDir()
	url, _, _ := start(t, filepath.Join(dir, "etcd"))
	file := filepath.Join(dir, "backup.db")
	if _, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, File: file, Progress: quiet}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	content[len(content)/2] ^= 1
	for what, damaged := range map[string][]byte{"damaged": content, "not a whole": content[:len(content)-100]} {
		require.NoError(t, os.WriteFile(file, damaged, 0o600))
		err := Restore(t.Context(), RestoreOptions{File: file, DataDir: filepath.Join(dir, "restored"), Name: "a", InitialAdvertisePeerURLs: []string{embedded.PeerURL}})
		assert.ErrorContains(t, err, what)
		if _, err := os.Stat(filepath.Join(dir, "restored", "member")); err == nil {
			t.Errorf("%s: something is restored", what)
		}
	}
}

func TestNewestSnapshotsAreKept(t *testing.T) {
	dir := t.TempDir()
	url, _, _ := start(t, filepath.Join(dir, "etcd"))
	backups := filepath.Join(dir, "backups")
	require.NoError(t, os.Mkdir(backups, 0o700))
	others := []string{"other-20250101T000000Z.db", "tripod-etcd-extensions-20250101T000000Z.db", "tripod-etcd-notes.db", "tripod-etcd-20250101T000000Z.db.bak"}
	for _, name := range append(others, "tripod-etcd-20250101T000000Z.db", "tripod-etcd-20250102T000000Z.db") {
		require.NoError(t, os.WriteFile(filepath.Join(backups, name), nil, 0o600))
	}
	saved, err := Save(t.Context(), SaveOptions{Endpoints: []string{url}, Directory: backups, Name: "tripod-etcd", Keep: 2, Progress: quiet})
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(backups, "tripod-etcd-20250101T000000Z.db")}, saved.Removed, "removed")
	entries, err := os.ReadDir(backups)
	require.NoError(t, err)
	if want := len(others) + 2; len(entries) != want {
		t.Errorf("there are %d files, want %d: %v", len(entries), want, entries)
	}
}

func TestWhatCannotBeSavedLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	existing := filepath.Join(dir, "existing.db")
	require.NoError(t, os.WriteFile(existing, nil, 0o600))
	nowhere := []string{"http://127.0.0.1:1"}
	for _, tc := range []struct {
		name    string
		options SaveOptions
		want    string
	}{
		{"nobody there", SaveOptions{Endpoints: nowhere, File: filepath.Join(dir, "a.db")}, "cannot be reached"},
		{"no URL", SaveOptions{Endpoints: []string{"127.0.0.1:1"}, File: filepath.Join(dir, "a.db")}, "not a URL"},
		{"no endpoint", SaveOptions{File: filepath.Join(dir, "a.db")}, "--endpoints"},
		{"file is there", SaveOptions{Endpoints: nowhere, File: existing}, "not overwritten"},
		{"no directory", SaveOptions{Endpoints: nowhere, File: filepath.Join(dir, "none", "a.db")}, "the directory does not exist"},
		{"nowhere to save", SaveOptions{Endpoints: nowhere}, "where to save"},
		{"two places to save", SaveOptions{Endpoints: nowhere, File: existing, Directory: dir}, "where to save"},
		{"no certificate", SaveOptions{Endpoints: nowhere, File: filepath.Join(dir, "a.db"), CAFile: "none.crt"}, "--cacert"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.options.Progress = quiet
			if _, err := Save(t.Context(), tc.options); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("left are %v, %v", entries, err)
			}
		})
	}
}
