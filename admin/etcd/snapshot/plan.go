// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
)

// Plan is what a restore would do.
type Plan struct {
	Snapshot PlannedSnapshot `json:"snapshot"`
	// DataDir is the directory that the restore would make.
	DataDir string `json:"dataDir"`
	// Existing is the data that is there.
	Existing *ExistingData `json:"existing,omitempty"`
	// RestoredBefore says that the data directory is of this snapshot already. The restore would do nothing.
	RestoredBefore bool `json:"restoredBefore"`
}

// PlannedSnapshot is the snapshot that a restore would restore.
type PlannedSnapshot struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"`
	// Revision is 0 if it is not known.
	Revision int64 `json:"revision,omitempty"`
	// NewRevision is the one that etcd would go on from.
	NewRevision int64 `json:"newRevision,omitempty"`
	// ClusterID is nothing if the snapshot does not say of which etcd it is.
	ClusterID string `json:"clusterID,omitempty"`
}

// ExistingData is a data directory that a restore would keep under another name.
type ExistingData struct {
	Bytes int64 `json:"bytes"`
	// ClusterID is nothing if it cannot be read.
	ClusterID string `json:"clusterID,omitempty"`
	// KeptAs is the name that the directory would have, apart from the time at its end.
	KeptAs string `json:"keptAs"`
}

// PlanRestore checks all that [Restore], or with replace [Replace], would check, and changes nothing.
func PlanRestore(ctx context.Context, o RestoreOptions, replace bool) (*Plan, error) {
	plan := &Plan{DataDir: o.DataDir}
	if !replace {
		if err := o.checkEmpty(); err != nil {
			return nil, err
		}
	} else {
		var err error
		if plan.RestoredBefore, err = o.restoredBefore(); err != nil {
			return nil, err
		}
		if !plan.RestoredBefore {
			unlock, err := lockStopped(o.DataDir)
			if err != nil {
				return nil, err
			}
			defer unlock()
		}
		if plan.Existing, err = o.existing(); err != nil {
			return nil, err
		}
	}
	snapshot, err := o.check(ctx)
	if err != nil {
		return nil, err
	}
	plan.Snapshot = PlannedSnapshot{
		File: o.File, Bytes: snapshot.bytes, SHA256: snapshot.sha256, Revision: snapshot.revision, ClusterID: snapshot.clusterID,
	}
	if snapshot.revision > 0 {
		plan.Snapshot.NewRevision = snapshot.revision + int64(o.BumpRevision)
	}
	if plan.RestoredBefore {
		return plan, nil
	}
	if plan.Existing != nil {
		if err := cmp.Or(o.checkCluster(snapshot), o.checkForward(snapshot)); err != nil {
			return plan, err
		}
	}
	// Without a volume, only the snapshot is checked, as before its place is known.
	if _, err := os.Stat(filepath.Dir(filepath.Clean(o.DataDir))); errors.Is(err, fs.ErrNotExist) {
		return plan, nil
	}
	return plan, o.checkRoom(snapshot.bytes)
}

func (o *RestoreOptions) existing() (*ExistingData, error) {
	bytes, exists, err := directoryBytes(o.DataDir)
	if err != nil || !exists {
		return nil, err
	}
	return &ExistingData{Bytes: bytes, ClusterID: dataClusterID(o.DataDir), KeptAs: o.keptName(time.Now())}, nil
}

// check checks a snapshot without storing it.
func (o *RestoreOptions) check(ctx context.Context) (*fetched, error) {
	if bucket.IsURL(o.File) {
		client, object, err := o.object(ctx)
		if err != nil {
			return nil, err
		}
		return o.readObject(ctx, client, object, io.Discard)
	}
	return o.checkFile()
}
