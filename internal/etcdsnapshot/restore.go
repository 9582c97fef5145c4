// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdsnapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// RestoreOptions say what member of an etcd to make of a snapshot. Names are those of etcd's flags.
type RestoreOptions struct {
	File    string
	DataDir string

	Name                     string
	InitialAdvertisePeerURLs []string
	// InitialCluster is the member alone when it is empty.
	InitialCluster      string
	InitialClusterToken string

	// BumpRevision is added to the revision of the snapshot, and everything before is marked as compacted. It has to be more than what
	// was written since the snapshot: then no client sees a resourceVersion that it has seen with another content, and all watches
	// begin again with a list.
	BumpRevision uint64
	// SkipHashCheck takes a file without a hash, a copy of the database of a member.
	SkipHashCheck bool
}

// Restore makes the data directory of a member. Directories that have something in them are refused.
func Restore(o RestoreOptions) error {
	if !o.SkipHashCheck {
		if _, _, err := verify(o.File); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(o.DataDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot use the data directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("there is something in the data directory %s: stop etcd, and move it away", o.DataDir)
	}
	cluster := o.InitialCluster
	if cluster == "" {
		for i, peer := range o.InitialAdvertisePeerURLs {
			if i > 0 {
				cluster += ","
			}
			cluster += o.Name + "=" + peer
		}
	}
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath:        o.File,
		Name:                o.Name,
		OutputDataDir:       o.DataDir,
		OutputWALDir:        filepath.Join(o.DataDir, "member", "wal"),
		PeerURLs:            o.InitialAdvertisePeerURLs,
		InitialCluster:      cluster,
		InitialClusterToken: o.InitialClusterToken,
		SkipHashCheck:       o.SkipHashCheck,
		RevisionBump:        o.BumpRevision,
		MarkCompacted:       o.BumpRevision > 0,
	})
	if err != nil {
		// A half of it would look to etcd like a member.
		return errors.Join(fmt.Errorf("cannot restore %s: %w", o.File, err), os.RemoveAll(filepath.Join(o.DataDir, "member")))
	}
	return nil
}
