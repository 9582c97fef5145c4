// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"golang.org/x/sys/unix"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
)

// checkRoom refuses a restore for which the volume has no room, before anything is written. The new database is as large as the snapshot,
// and has a log besides. A download lies beside both. The data that is there stays in any case.
func (o *RestoreOptions) checkRoom(snapshot int64) error {
	needed := snapshot + wal.SegmentSizeBytes
	if bucket.IsURL(o.File) {
		needed += snapshot
	}
	volume, available, err := availableBytes(filepath.Dir(filepath.Clean(o.DataDir)))
	if err != nil || available >= needed {
		return err
	}
	return fmt.Errorf("the volume of %s has %d MiB left, and restoring %s needs %d MiB: remove what earlier restores have kept there as %s, "+
		"or enlarge the volume", volume, available>>20, o.File, needed>>20, filepath.Base(filepath.Clean(o.DataDir))+".before-TIME")
}

// availableBytes returns what a user without privileges may still write below a directory, which need not exist yet, and the directory that
// does.
func availableBytes(dir string) (existing string, bytes int64, err error) {
	for {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return "", 0, fmt.Errorf("cannot see how much room %s has: %w", dir, err)
		}
		return dir, int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // the types differ by system; no volume has 2^63 bytes
	}
}
