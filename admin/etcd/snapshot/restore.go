// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// RestoreOptions describe the member of an etcd to restore. Names are those of etcd's flags.
type RestoreOptions struct {
	File    string
	DataDir string

	Name                     string
	InitialAdvertisePeerURLs []string
	// InitialCluster is the member alone when it is empty.
	InitialCluster      string
	InitialClusterToken string

	// BumpRevision is added to the revision of the snapshot, and all earlier revisions count as compacted. It has to be more than etcd
	// has written since the snapshot. Then no client sees a resourceVersion again with other content, and all watches begin again
	// with a list.
	BumpRevision uint64
	// SkipHashCheck accepts a file without a hash: a copy of the database of a member.
	SkipHashCheck bool
}

// Restore makes the data directory of a member. It refuses a directory that is not empty.
func Restore(o RestoreOptions) error {
	if err := o.verify(); err != nil {
		return err
	}
	entries, err := os.ReadDir(o.DataDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot use the data directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("the data directory %s is not empty: stop etcd, and move the directory away", o.DataDir)
	}
	return o.restore(o.DataDir)
}

// restoredFrom is the file in a data directory that names the snapshot from which [Replace] made it.
const restoredFrom = "member/restored-from"

// Replace makes the data directory of a member, and keeps an existing one under another name. It does nothing if it has made the
// directory from a snapshot of this name before. So it can run before each start of etcd.
func Replace(o RestoreOptions) (made bool, kept string, err error) {
	name := filepath.Base(o.File)
	switch of, err := os.ReadFile(filepath.Join(o.DataDir, restoredFrom)); {
	case err == nil && string(of) == name:
		return false, "", nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, "", fmt.Errorf("cannot use the data directory: %w", err)
	}
	if err := o.verify(); err != nil {
		return false, "", err
	}
	// A directory beside it, so that the existing one stays complete if this is interrupted.
	making := o.DataDir + ".restoring"
	if err := os.RemoveAll(making); err != nil {
		return false, "", fmt.Errorf("cannot make a data directory: %w", err)
	}
	if err := o.restore(making); err != nil {
		return false, "", err
	}
	if err := os.WriteFile(filepath.Join(making, restoredFrom), []byte(name), 0o600); err != nil {
		return false, "", fmt.Errorf("cannot make a data directory: %w", err)
	}
	kept = o.DataDir + ".before-" + time.Now().UTC().Format(timeFormat)
	if err := os.Rename(o.DataDir, kept); errors.Is(err, fs.ErrNotExist) {
		kept = ""
	} else if err != nil {
		return false, "", fmt.Errorf("cannot keep the data that is there: %w", err)
	}
	if err := os.Rename(making, o.DataDir); err != nil {
		return false, kept, fmt.Errorf("cannot put the data directory into its place: %w", err)
	}
	return true, kept, nil
}

func (o *RestoreOptions) verify() error {
	if o.SkipHashCheck {
		return nil
	}
	_, _, err := verify(o.File)
	return err
}

// restore makes a data directory.
func (o *RestoreOptions) restore(dir string) error {
	cluster := o.InitialCluster
	if cluster == "" {
		for i, peer := range o.InitialAdvertisePeerURLs {
			if i > 0 {
				cluster += ","
			}
			cluster += o.Name + "=" + peer
		}
	}
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath:        o.File,
		Name:                o.Name,
		OutputDataDir:       dir,
		OutputWALDir:        filepath.Join(dir, "member", "wal"),
		PeerURLs:            o.InitialAdvertisePeerURLs,
		InitialCluster:      cluster,
		InitialClusterToken: o.InitialClusterToken,
		SkipHashCheck:       o.SkipHashCheck,
		RevisionBump:        o.BumpRevision,
		MarkCompacted:       o.BumpRevision > 0,
	})
	if err != nil {
		// etcd would take an incomplete directory for a member.
		return errors.Join(fmt.Errorf("cannot restore %s: %w", o.File, err), os.RemoveAll(filepath.Join(dir, "member")))
	}
	return nil
}
