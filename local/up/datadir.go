// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// DataDirVariable is the environment variable for the data directory. A flag overrides it.
const DataDirVariable = "TRIPOD_DATA_DIR"

// DefaultDataDir returns the data directory to use without a flag.
func DefaultDataDir() string {
	if dir := os.Getenv(DataDirVariable); dir != "" {
		return dir
	}
	return ".tripod"
}

// DataDir is the directory where an instance keeps everything.
type DataDir string

// Kubeconfig returns the path of the kubeconfig of the instance.
func (d DataDir) Kubeconfig() string { return filepath.Join(string(d), "kubeconfig") }

func (d DataDir) pki() string               { return filepath.Join(string(d), "pki") }
func (d DataDir) etcd() string              { return filepath.Join(string(d), "etcd") }
func (d DataDir) logs() string              { return filepath.Join(string(d), "logs") }
func (d DataDir) log(replica string) string { return filepath.Join(d.logs(), replica+".log") }
func (d DataDir) backends() string          { return filepath.Join(string(d), "backends.yaml") }
func (d DataDir) lockFile() string          { return filepath.Join(string(d), "lock") }
func (d DataDir) socket() string            { return filepath.Join(string(d), "tripod.sock") }

// open makes the directory and locks it for this process. The lock ends with the process at the latest.
func (d DataDir) open() (lock *os.File, err error) {
	if err := os.MkdirAll(d.logs(), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the data directory: %w", err)
	}
	lock, err = os.OpenFile(d.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer lock.Close() //nolint:errcheck // it was only read
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("cannot lock the data directory: %w", err)
		}
		holder, _ := io.ReadAll(io.LimitReader(lock, 32))
		return nil, fmt.Errorf("another tripod up (pid %s) uses %s: stop it, or give another --data-dir",
			strings.TrimSpace(string(holder)), d)
	}
	if err := lock.Truncate(0); err != nil {
		return lock, fmt.Errorf("cannot write %s: %w", d.lockFile(), err)
	}
	if _, err := fmt.Fprintln(lock, os.Getpid()); err != nil {
		return lock, fmt.Errorf("cannot write %s: %w", d.lockFile(), err)
	}
	return lock, nil
}
