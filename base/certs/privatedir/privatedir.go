// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package privatedir makes directories that only their owner can read and change, and refuses the directories of others.
package privatedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const (
	private       fs.FileMode = 0o700
	othersMayRead fs.FileMode = 0o077
	// othersMayWrite are the bits for which OpenSSH, too, does not trust a directory.
	othersMayWrite fs.FileMode = 0o022
)

// Make makes the directory if it is missing. An existing directory must be the caller's, and others must not have been able to
// put files there. If they may only read it, it becomes private.
func Make(path string) error {
	if err := os.MkdirAll(path, private); err != nil {
		return err
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // it is only read
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	if err := ownedByCaller(path, info); err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if mode&othersMayRead == 0 {
		return nil
	}
	if err := dir.Chmod(private); err != nil {
		return err
	}
	if mode&othersMayWrite == 0 {
		return nil
	}
	// An empty directory has nothing of others, as one that was made with umask 002.
	if _, err := dir.Readdirnames(1); errors.Is(err, io.EOF) {
		return nil
	}
	return errors.Join(writableByOthers(path, mode), dir.Chmod(mode))
}

// Check returns an error if files in the directory may be those of another user. A missing directory has no files.
func Check(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := ownedByCaller(path, info); err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&othersMayWrite != 0 {
		return writableByOthers(path, mode)
	}
	return nil
}

func ownedByCaller(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("cannot determine the owner of %s", path)
	}
	if caller := os.Geteuid(); int(stat.Uid) != caller {
		return fmt.Errorf("directory %s belongs to user %d, not to you (user %d): use a directory of your own", path, stat.Uid, caller)
	}
	return nil
}

func writableByOthers(path string, mode fs.FileMode) error {
	return fmt.Errorf("others may write to directory %s (mode %#o): look what is in it, then chmod 0700 it, or use another directory", path,
		mode)
}
