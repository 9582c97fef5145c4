// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filewatch notices that files have other content. It reads them often, which works with every way to replace a file.
package filewatch

import (
	"bytes"
	"context"
	"os"
	"time"
)

const interval = 500 * time.Millisecond

// Watch is of certain files.
type Watch struct {
	paths    []string
	contents [][]byte
}

// New returns a watch of files as they are now.
func New(paths ...string) *Watch {
	w := &Watch{paths: paths, contents: make([][]byte, len(paths))}
	w.look()
	return w
}

// Run calls changed when a file has other content than before, until the context ends. A file that cannot be read has not changed.
func (w *Watch) Run(ctx context.Context, changed func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if w.look() {
			changed()
		}
	}
}

func (w *Watch) look() (changed bool) {
	for i, path := range w.paths {
		if content, err := os.ReadFile(path); err == nil && !bytes.Equal(content, w.contents[i]) {
			w.contents[i], changed = content, true
		}
	}
	return changed
}
