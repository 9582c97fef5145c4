// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	temporaryPrefix = "tripod-" + Name + "-"
	// abandonedAfter is the age after which a directory without a lock counts as left behind. A younger one may be locked in a
	// moment.
	abandonedAfter = time.Minute
)

// temporary is a directory for the certificates of this process. It is in use for as long as its lock is open.
type temporary struct {
	path string
	lock *os.File
}

// newTemporary makes a directory. It also removes directories that killed processes left behind.
func newTemporary() (*temporary, error) {
	removeAbandoned()
	dir, err := os.MkdirTemp("", temporaryPrefix)
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for certificates: %w", err)
	}
	lock, err := hold(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", dir, err), os.RemoveAll(dir))
	}
	return &temporary{path: dir, lock: lock}, nil
}

func (t *temporary) remove() {
	_ = os.RemoveAll(t.path)
	_ = t.lock.Close()
}

// hold locks a directory for as long as the file, or a copy of it in another program, is open.
func hold(dir string) (*os.File, error) {
	held, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

func removeAbandoned() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < abandonedAfter {
			continue
		}
		if held, err := hold(dir); err == nil {
			_ = os.RemoveAll(dir) // fails for those of other users
			_ = held.Close()
		}
	}
}
