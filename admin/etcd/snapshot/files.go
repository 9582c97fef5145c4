// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// timeFormat sorts as time does.
	timeFormat = "20060102T150405Z"
	extension  = ".db"
)

func fileName(name string, now time.Time) string {
	return name + "-" + now.UTC().Format(timeFormat) + extension
}

// IsOf reports whether a file has the name of a snapshot that was saved with a name ([SaveOptions]).
func IsOf(file, name string) bool { return isSnapshot(file, name) }

// isSnapshot reports whether a file has the name of a snapshot of an etcd.
func isSnapshot(file, name string) bool {
	stamp, ok := strings.CutPrefix(strings.TrimSuffix(file, extension), name+"-")
	_, err := time.Parse(timeFormat, stamp)
	return ok && err == nil && strings.HasSuffix(file, extension)
}

// syncFile makes a file, or the names in a directory, survive a crash of the machine.
var syncFile = (*os.File).Sync

func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(syncFile(file), file.Close())
}

// prune removes all snapshots of name but the newest ones, and returns those that it removed.
func prune(directory, name string, keep int) (removed []string, err error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("cannot remove old snapshots: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if isSnapshot(entry.Name(), name) {
			files = append(files, entry.Name())
		}
	}
	slices.Sort(files)
	for _, file := range files[:max(0, len(files)-keep)] {
		path := filepath.Join(directory, file)
		if err := os.Remove(path); err != nil {
			return removed, fmt.Errorf("cannot remove an old snapshot: %w", err)
		}
		removed = append(removed, path)
	}
	return removed, nil
}

// verify compares a snapshot with the hash at its end, which etcd writes, and returns the hash of the rest.
func verify(path string) (size int64, hash string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return 0, "", err
	}
	check, err := newChecker(path, info.Size())
	if err != nil {
		return 0, "", err
	}
	if _, err := io.CopyN(check, file, info.Size()); err != nil {
		return 0, "", err
	}
	hash, err = check.result()
	return info.Size(), hash, err
}

// checker gets the bytes of a snapshot, and compares those of the database with the hash behind them.
type checker struct {
	name string
	// left is how many bytes of the database are still to come.
	left int64
	sum  hash.Hash
	// written is the hash at the end.
	written []byte
}

// newChecker refuses a size that no whole snapshot has.
func newChecker(name string, size int64) (*checker, error) {
	// Pages of a database are multiples of 512 bytes.
	if size%512 != sha256.Size {
		return nil, fmt.Errorf("%s has no hash at its end: it is not a whole snapshot", name)
	}
	return &checker{name: name, left: size - sha256.Size, sum: sha256.New()}, nil
}

func (c *checker) Write(p []byte) (int, error) {
	n := min(int64(len(p)), c.left)
	c.sum.Write(p[:n])
	c.left -= n
	if c.written = append(c.written, p[n:]...); len(c.written) > sha256.Size {
		return 0, fmt.Errorf("%s is larger than it was", c.name)
	}
	return len(p), nil
}

func (c *checker) result() (hash string, err error) {
	if !bytes.Equal(c.sum.Sum(nil), c.written) {
		return "", fmt.Errorf("%s does not match the hash at its end: it is damaged", c.name)
	}
	return hex.EncodeToString(c.written), nil
}
