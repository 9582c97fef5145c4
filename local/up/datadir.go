// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tripod-k8s/tripod/base/certs/privatedir"
)

// DataDirVariable is the environment variable for the data directory. A flag overrides it.
const DataDirVariable = "TRIPOD_DATA_DIR"

// DefaultDataDirHelp says in help texts where the data directory is without a flag and without the variable.
const DefaultDataDirHelp = "$HOME/" + dirName

const (
	dirName = ".tripod"
	pkiName = "pki"
)

// DefaultDataDir returns the data directory to use without a flag. It is a directory of the user: a writer of the working
// directory, as the author of a repository does, must not choose certificates and kubeconfigs.
func DefaultDataDir() string {
	if dir := os.Getenv(DataDirVariable); dir != "" {
		return dir
	}
	return homeDir()
}

// DefaultName is the name of the instance in DefaultDataDir.
const DefaultName = "default"

// DataDirNamed returns the data directory of a named instance. It is beside the default one, so that List finds it.
func DataDirNamed(name string) (DataDir, error) {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return "", fmt.Errorf("%q is no name for an instance: %s", name, problems[0])
	}
	if name == DefaultName {
		return DataDir(DefaultDataDir()), nil
	}
	return DataDir(homeDir() + "-" + name), nil
}

// homeDir is the data directory of the default instance without the variable.
func homeDir() string { return filepath.Join("/", os.Getenv("HOME"), dirName) }

// Name returns the name of the instance in the directory, or the path of a directory that has none.
func (d DataDir) Name() string {
	name, _ := d.name()
	return name
}

func (d DataDir) name() (name string, isNamed bool) {
	path := string(d)
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if path == DefaultDataDir() {
		return DefaultName, true
	}
	if name, ok := strings.CutPrefix(path, homeDir()+"-"); ok && len(validation.IsDNS1123Label(name)) == 0 {
		return name, true
	}
	return path, false
}

// EarlierInstance returns a line about an instance in the working directory, where earlier versions had it by default. The line is
// empty if there is none, or if the user has an instance in the default place or chose another.
func EarlierInstance() string {
	if os.Getenv(DataDirVariable) != "" {
		return ""
	}
	if _, err := os.Stat(DefaultDataDir()); err == nil {
		return ""
	}
	if _, err := os.Lstat(filepath.Join(dirName, pkiName)); err != nil {
		return ""
	}
	return "Tripod now keeps an instance in " + DefaultDataDirHelp + ". If the one in ./" + dirName +
		" is yours, go on using it with --data-dir " +
		dirName + " or " + DataDirVariable + "=$PWD/" + dirName + "."
}

// DataDir is the directory where an instance keeps everything.
type DataDir string

// TrustedKubeconfig returns the path of the kubeconfig, or an error if another user could have written it. A kubeconfig can run programs.
func (d DataDir) TrustedKubeconfig() (string, error) {
	return d.Kubeconfig(), privatedir.Check(string(d))
}

// Kubeconfig returns the path of the kubeconfig of the instance.
func (d DataDir) Kubeconfig() string { return filepath.Join(string(d), "kubeconfig") }

func (d DataDir) pki() string               { return filepath.Join(string(d), pkiName) }
func (d DataDir) etcd() string              { return filepath.Join(string(d), "etcd") }
func (d DataDir) logs() string              { return filepath.Join(string(d), "logs") }
func (d DataDir) log(replica string) string { return filepath.Join(d.logs(), replica+".log") }
func (d DataDir) versionFile() string       { return filepath.Join(string(d), "kubernetes-version") }
func (d DataDir) backends() string          { return filepath.Join(string(d), "backends.yaml") }
func (d DataDir) lockFile() string          { return filepath.Join(string(d), "lock") }
func (d DataDir) controllers() string       { return filepath.Join(string(d), "controllers") }
func (d DataDir) socket() string            { return filepath.Join(string(d), "tripod.sock") }

// marker says that an instance was the first to use a directory, so that all in it with the names of its files is its own.
func (d DataDir) marker() string { return filepath.Join(string(d), ".tripod-instance") }

// isEmpty reports whether there is nothing in the directory, or no such directory.
func (d DataDir) isEmpty() bool {
	entries, err := os.ReadDir(string(d))
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}

func (d DataDir) mark() error {
	file, err := os.OpenFile(d.marker(), os.O_CREATE|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// open makes the directory and locks it for this process. The lock ends with the process at the latest. From then on, no other process can
// read or change anything in the directory.
func (d DataDir) open() (lock *os.File, err error) {
	isNew := d.isEmpty()
	if err := privatedir.Make(string(d)); err != nil {
		return nil, fmt.Errorf("cannot use the data directory: %w", err)
	}
	if isNew {
		if err := d.mark(); err != nil {
			return nil, fmt.Errorf("cannot use the data directory: %w", err)
		}
	}
	for _, sub := range []string{d.logs(), d.pki()} {
		// A link would lead logs and keys elsewhere.
		if info, err := os.Lstat(sub); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("cannot use the data directory: %s is a symbolic link", sub)
		}
		if err := privatedir.Make(sub); err != nil {
			return nil, fmt.Errorf("cannot use the data directory: %w", err)
		}
	}
	lock, err = os.OpenFile(d.lockFile(), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data directory: %w", err)
	}
	if err := d.take(lock); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

const (
	// looks is how often to look whether a lock is free. Another process may hold it for a moment, only to learn the same.
	looks        = 5
	lookInterval = 10 * time.Millisecond
)

// take locks the directory by its lock file, and writes there who has it.
func (d DataDir) take(lock *os.File) error {
	err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for n := 1; n < looks && errors.Is(err, syscall.EWOULDBLOCK); n++ {
		time.Sleep(lookInterval)
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := io.ReadAll(io.LimitReader(lock, 32))
		return fmt.Errorf("another tripod up (pid %s) uses %s: stop it, or give another --name or --data-dir",
			strings.TrimSpace(string(holder)), d)
	}
	if err != nil {
		return fmt.Errorf("cannot lock the data directory: %w", err)
	}
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("cannot write %s: %w", d.lockFile(), err)
	}
	if _, err := lock.WriteAt(fmt.Appendln(nil, os.Getpid()), 0); err != nil {
		return fmt.Errorf("cannot write %s: %w", d.lockFile(), err)
	}
	return nil
}

// isLocked reports whether a process has locked the directory.
func (d DataDir) isLocked() (bool, error) {
	lock, err := os.OpenFile(d.lockFile(), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Close() //nolint:errcheck // it is only read
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
