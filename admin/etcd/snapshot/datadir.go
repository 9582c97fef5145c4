// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"
)

// clusterID returns the ID of an etcd as etcd prints it, or nothing if it is not known.
func clusterID(id uint64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(id, 16)
}

// lockStopped refuses a data directory that an etcd uses: renaming it would not stop that etcd, whose later writes would be lost. Until
// it is unlocked, no etcd starts with the directory, because each locks its log.
func lockStopped(dir string) (unlock func(), err error) {
	var locks []io.Closer
	unlock = func() {
		for _, lock := range locks {
			lock.Close() //nolint:errcheck // the lock ends in any case
		}
	}
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil {
		return nil, err
	}
	for _, path := range logs {
		lock, err := fileutil.TryLockFile(path, os.O_WRONLY, fileutil.PrivateFileMode)
		if err == nil {
			locks = append(locks, lock)
			continue
		}
		unlock()
		if errors.Is(err, fileutil.ErrLocked) {
			return nil, fmt.Errorf("an etcd uses the data directory %s: stop it first", dir)
		}
		return nil, fmt.Errorf("cannot use the data directory %s: %w", dir, err)
	}
	return unlock, nil
}

// lockBeside locks a data directory against another restore, also while it does not exist. The lock ends with the process.
func lockBeside(dir string) (unlock func(), err error) {
	path := filepath.Clean(dir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("cannot use the data directory: %w", err)
	}
	unlock, err = lock(path)
	switch {
	case errors.Is(err, errLocked):
		return nil, fmt.Errorf("another restore uses the data directory %s: wait until it has ended", dir)
	case err != nil:
		return nil, fmt.Errorf("cannot lock the data directory %s: %w", dir, err)
	}
	return unlock, nil
}

// errLocked is that of a path that another process has locked.
var errLocked = fileutil.ErrLocked

// lock locks a path by a file beside it. The lock ends with the process.
func lock(path string) (unlock func(), err error) {
	path += ".lock"
	for {
		lock, err := fileutil.TryLockFile(path, os.O_CREATE|os.O_RDWR, fileutil.PrivateFileMode)
		if err != nil {
			return nil, err
		}
		// The one before may have removed the file between the opening and the locking of it.
		locked, err := lock.Stat()
		there, gone := os.Stat(path)
		if err == nil && gone == nil && os.SameFile(locked, there) {
			return func() { errors.Join(os.Remove(path), lock.Close()) }, nil //nolint:errcheck // the lock ends in any case
		}
		if err := errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
}

// dataClusterID returns the ID of the etcd whose member has a data directory, or nothing if there is none that can be read.
func dataClusterID(dir string) string {
	logs := filepath.Join(dir, "member", "wal")
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), logs)
	if err != nil || len(snapshots) == 0 {
		return ""
	}
	log, err := wal.OpenForRead(zap.NewNop(), logs, snapshots[len(snapshots)-1])
	if err != nil {
		return ""
	}
	defer log.Close() //nolint:errcheck // it was read
	metadata, _, _, err := log.ReadAll()
	if err != nil {
		return ""
	}
	return clusterID(metadataCluster(metadata))
}

// metadataCluster returns the field ClusterID of etcd's message Metadata, whose Go type depends on the version of etcd.
func metadataCluster(message []byte) (id uint64) {
	const field = 2
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0
		}
		message = message[n:]
		if number == field && kind == protowire.VarintType {
			if id, n = protowire.ConsumeVarint(message); n < 0 {
				return 0
			}
			return id
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return 0
		}
		message = message[n:]
	}
	return 0
}

// directoryBytes returns how much the files in a directory take, and whether it has any.
func directoryBytes(dir string) (bytes int64, exists bool, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if path == dir && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		exists = exists || path != dir
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes, exists, err
}
