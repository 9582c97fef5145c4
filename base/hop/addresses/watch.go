// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/service/filewatch"
)

// WatchBackends reads the file at path until ctx ends, and calls changed when it says something else than the last call, or than
// last before the first. A file that cannot be read or is not valid changes nothing, and is logged.
func WatchBackends(ctx context.Context, path string, last *Backends, changed func(*Backends)) {
	w := watcher{path: path, last: last}
	filewatch.Follow(ctx, func() {
		if b, err := w.look(); err != nil {
			klog.ErrorS(err, "Backends stay where they were", "file", path)
		} else if b != nil {
			changed(b)
		}
	}, path)
}

// watcher remembers what it saw.
type watcher struct {
	path string
	// last is what was valid, data what was in the file, and failure why it could not be read.
	last    *Backends
	data    []byte
	failure string
}

// look returns what the file says, if that is new. An error is returned once.
func (w *watcher) look() (*Backends, error) {
	data, err := os.ReadFile(w.path)
	if err != nil {
		if err.Error() == w.failure {
			return nil, nil
		}
		w.failure = err.Error()
		return nil, fmt.Errorf("cannot read where backends are: %w", err)
	}
	w.failure = ""
	if w.data != nil && bytes.Equal(data, w.data) {
		return nil, nil
	}
	w.data = data
	b, err := parse(w.path, data)
	if err != nil {
		return nil, err
	}
	if reflect.DeepEqual(b, w.last) {
		return nil, nil
	}
	w.last = b
	return b, nil
}
