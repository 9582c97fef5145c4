// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// unused is a data directory that no instance has used yet, so that an instance that is refused can leave it as it was.
type unused struct {
	dir DataDir
	// existed says that the directory was there, and was empty.
	existed bool
}

// ifUnused returns the directory if it is empty or does not exist, and otherwise nil.
func (d DataDir) ifUnused() *unused {
	if !d.isEmpty() {
		return nil
	}
	_, err := os.Lstat(string(d))
	return &unused{dir: d, existed: err == nil}
}

// whatParentReads are the names that a detached instance leaves, because its parent reads its log and has the rest to remove.
var whatParentReads = []string{"logs", "lock", ".tripod-instance"}

// leave removes what an instance has made in the directory but for some names. The caller has the lock.
func (u *unused) leave(but ...string) error {
	if u == nil {
		return nil
	}
	for _, name := range made {
		if slices.Contains(but, name) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(string(u.dir), name)); err != nil {
			return err
		}
	}
	if len(but) > 0 || u.existed {
		return nil
	}
	// Files that others have put there stay.
	if err := os.Remove(string(u.dir)); !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	return nil
}

// finish removes the rest if a detached instance was refused. If such an instance has left keys, it was not, and everything stays.
func (u *unused) finish() error {
	if u == nil {
		return nil
	}
	lock, err := os.OpenFile(u.dir.lockFile(), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil
	}
	// Remove leaves a directory with keys.
	if err := os.Remove(u.dir.pki()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return u.leave()
}
