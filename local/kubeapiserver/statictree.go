// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/base/service/atomicfile"
)

const (
	// A service may read its copies, and only root may change them.
	copyMode    fs.FileMode = 0o440
	copyDirMode fs.FileMode = 0o750
	// writtenMode is for directories in which a service makes files.
	writtenMode fs.FileMode = 0o700
)

// tree has copies of the files that a service reads, below the paths that they have on the host. A mount of a single file would show the
// old file after the file is replaced, and a mount of the directory would show the files of others.
type tree struct {
	root  string
	group int
	chown func(path string, user, group int) error
	// files are the paths on the host. mountPoints are directories that other mounts cover.
	files, mountPoints sets.Set[string]
}

func (t *tree) path(host string) string { return filepath.Join(t.root, host) }

// write copies the files that changed. It removes nothing, because a replica may still run with other flags.
func (t *tree) write() error {
	for _, dir := range sets.List(t.mountPoints) {
		if err := t.makeDir(t.path(dir)); err != nil {
			return err
		}
	}
	for _, file := range sets.List(t.files) {
		if err := t.copy(file); err != nil {
			return fmt.Errorf("cannot copy %s for a static pod: %w", file, err)
		}
	}
	return nil
}

func (t *tree) copy(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	path := t.path(file)
	if err := t.makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, content) {
		return t.give(path, copyMode)
	}
	return atomicfile.Write(path, content, func(path string) error { return t.give(path, copyMode) })
}

// makeDir makes a directory of the tree and those above it.
func (t *tree) makeDir(dir string) error {
	if dir != t.root {
		if err := t.makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, copyDirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return t.give(dir, copyDirMode)
}

// give lets the group of the service read a file or directory of this process's user.
func (t *tree) give(path string, mode fs.FileMode) error {
	return errors.Join(t.chown(path, os.Geteuid(), t.group), os.Chmod(path, mode))
}

// prune removes what the service no longer reads.
func (t *tree) prune() error {
	wanted := sets.New[string]()
	for _, path := range append(t.files.UnsortedList(), t.mountPoints.UnsortedList()...) {
		for path = t.path(path); path != t.root; path = filepath.Dir(path) {
			wanted.Insert(path)
		}
	}
	var others []string
	err := filepath.WalkDir(t.root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != t.root && !wanted.Has(path) {
			others = append(others, path)
		}
		return err
	})
	for _, path := range slices.Backward(others) { // files before the directory that has them
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return fmt.Errorf("cannot remove copies that no static pod reads: %w", err)
	}
	return nil
}

// makeWritten makes a directory in which a service makes files. Those that it made as another user become its own.
func makeWritten(dir string, user int, chown func(path string, user, group int) error) error {
	if err := os.MkdirAll(dir, writtenMode); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := chown(filepath.Join(dir, entry.Name()), user, user); err != nil {
			return err
		}
	}
	return errors.Join(chown(dir, user, user), os.Chmod(dir, writtenMode))
}

// isWithin reports whether a path is a directory, or in it.
func isWithin(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
