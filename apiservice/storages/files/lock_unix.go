// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package files

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock keeps other processes from the directory until the file is closed.
func lock(root *os.Root) (*os.File, error) {
	file, err := root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another process uses this directory: run one replica, and let it stop before the next one starts")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock it: %w", err), file.Close())
	}
	return file, nil
}
