// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filewatch notices that files have other content. It reads them when the kernel reports (inotify) that something happened in their
// directories, or in those of the files that they are links to, and every ten seconds: the kernel reports neither what another machine
// does in a network file system, nor that a link above a directory leads elsewhere. Where the kernel reports nothing, it reads them
// twice a second.
package filewatch

import (
	"bytes"
	"context"
	"os"
	"slices"
	"time"
)

// Watch is of certain files.
type Watch struct {
	paths    []string
	contents [][]byte
}

// New returns a watch of files as they are now.
func New(paths ...string) *Watch {
	w := &Watch{paths: paths, contents: make([][]byte, len(paths))}
	w.Look()
	return w
}

// Run calls changed when a file has other content than before, until the context ends. A file that cannot be read has not changed.
func (w *Watch) Run(ctx context.Context, changed func()) {
	Follow(ctx, func() {
		if w.Look() {
			changed()
		}
	}, w.paths...)
}

// Contents returns what was in the files when the watch looked last. A file that the watch never found is read now. While Run runs, only
// what it calls may call this.
func (w *Watch) Contents() ([][]byte, error) {
	for i, path := range w.paths {
		if w.contents[i] != nil {
			continue
		}
		var err error
		if w.contents[i], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return slices.Clone(w.contents), nil
}

// Look looks now, and returns whether a file has other content than before. Nothing else may call it while Run runs.
func (w *Watch) Look() (changed bool) {
	for i, path := range w.paths {
		if content, err := os.ReadFile(path); err == nil && !bytes.Equal(content, w.contents[i]) {
			w.contents[i], changed = content, true
		}
	}
	return changed
}

const (
	// settle is how long a writer has for the rest of a change. A writer in place first makes the file empty.
	settle = 50 * time.Millisecond
	// pause is the shortest time between two looks. Something may happen in a directory all the time.
	pause = 500 * time.Millisecond
	// rest is the longest time between two looks if the kernel reports changes.
	rest = 10 * time.Second
)

// Follow calls look at once, and whenever files may have changed, until the context ends.
func Follow(ctx context.Context, look func(), paths ...string) {
	happened := make(chan struct{}, 1)
	defer listen(happened)()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		begun := time.Now()
		longest := pause
		if reported(paths) {
			longest = rest
		}
		look()
		next.Reset(longest)
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			next.Reset(0)
		case <-happened:
			next.Reset(max(settle, pause-time.Since(begun)))
		}
	}
}
