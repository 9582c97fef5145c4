// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
)

func TestChangesOfAnyFileAreNoticed(t *testing.T) {
	reports := kernel
	for name, k := range map[string]func() *fsnotify.Watcher{"reported": reports, "not reported": func() *fsnotify.Watcher { return nil }} {
		t.Run(name, func(t *testing.T) {
			kernel = k
			t.Cleanup(func() { kernel = reports })
			dir := t.TempDir()
			a, b := filepath.Join(dir, "a"), filepath.Join(dir, "mounted", "b")
			do := func(errs ...error) {
				for _, err := range errs {
					require.NoError(t, err)
				}
			}
			put := func(path, content string) {
				do(os.WriteFile(path+"~", []byte(content), 0o600), os.Rename(path+"~", path))
			}
			put(a, "1")
			w := New(a, b)
			var changes atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				w.Run(ctx, func() { changes.Add(1) })
			}()
			defer func() {
				stop()
				<-ended
			}()
			// What changes nothing comes before something that does.
			put(a, "1")
			for i, change := range []func(){
				func() { put(a, "2") },
				func() { // as the kubelet mounts a ConfigMap
					do(os.MkdirAll(filepath.Join(dir, "mounted", "..1"), 0o700))
					do(os.WriteFile(filepath.Join(dir, "mounted", "..1", "b"), []byte("1"), 0o600))
					do(os.Symlink("..1", filepath.Join(dir, "mounted", "..data")), os.Symlink("..data/b", b))
				},
				func() { // and changes it
					do(os.MkdirAll(filepath.Join(dir, "mounted", "..2"), 0o700))
					do(os.WriteFile(filepath.Join(dir, "mounted", "..2", "b"), []byte("2"), 0o600))
					do(os.Symlink("..2", filepath.Join(dir, "mounted", "..new")))
					do(os.Rename(filepath.Join(dir, "mounted", "..new"), filepath.Join(dir, "mounted", "..data")))
				},
				func() { // one goes, and comes back as it was
					do(os.Remove(b))
					put(b, "2")
					put(a, "3")
				},
			} {
				change()
				require.Eventually(t, func() bool { return changes.Load() == int64(i)+1 }, time.Minute, 10*time.Millisecond, "change %d", i)
			}
		})
	}
}

func TestWithReportsFilesAreReadSeldom(t *testing.T) {
	if kernel() == nil {
		t.Fatal("the kernel reports nothing")
	}
	file := filepath.Join(t.TempDir(), "file")
	looks, begun := make(chan struct{}, 1000), time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go Follow(ctx, func() { looks <- struct{}{} }, file)
	<-looks
	time.Sleep(3 * pause)
	if n := len(looks); n > 0 && time.Since(begun) < rest {
		t.Errorf("%d looks without an event", n)
	}
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	<-looks
}

func TestTheTargetOfALinkIsWatched(t *testing.T) {
	target, link := filepath.Join(t.TempDir(), "target"), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	require.NoError(t, os.Symlink(target, link))
	require.True(t, reported([]string{link, ""}))
	elsewhere, err := filepath.EvalSymlinks(filepath.Dir(target))
	require.NoError(t, err)
	require.Subset(t, kernel().WatchList(), []string{elsewhere, filepath.Dir(link)})
}
