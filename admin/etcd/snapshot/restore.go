// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
)

// RestoreOptions describe the member of an etcd to restore. Names are those of etcd's flags.
type RestoreOptions struct {
	// File is the snapshot: a file, or an object of a bucket, s3://BUCKET/KEY.
	File    string
	DataDir string
	// Server is that of the bucket.
	Server bucket.Server

	Name                     string
	InitialAdvertisePeerURLs []string
	// InitialCluster is the member alone when it is empty.
	InitialCluster      string
	InitialClusterToken string

	// BumpRevision is added to the revision of the snapshot, and all earlier revisions count as compacted. It has to be more than etcd
	// has written since the snapshot. Then no client sees a resourceVersion again with other content, and all watches begin again
	// with a list.
	BumpRevision uint64
	// SHA256 is the hash that the snapshot must have, or nothing if it may have any.
	SHA256 string
	// SkipHashCheck accepts a file without a hash: a copy of the database of a member.
	SkipHashCheck bool
	// RestoreName is what Replace knows a directory by that it has made. Empty means the name of the snapshot.
	RestoreName string
	// OtherCluster lets a snapshot replace the data of an etcd that it is not of. Only objects of a bucket say of which etcd they are.
	OtherCluster bool
}

// Restore makes the data directory of a member. It refuses a directory that is not empty.
func Restore(ctx context.Context, o RestoreOptions) error {
	if err := o.checkEmpty(); err != nil {
		return err
	}
	snapshot, remove, err := o.fetch(ctx)
	if err != nil {
		return err
	}
	defer remove()
	return o.restore(snapshot.path, o.DataDir)
}

func (o *RestoreOptions) checkEmpty() error {
	entries, err := os.ReadDir(o.DataDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot use the data directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("the data directory %s is not empty: stop etcd, and move the directory away", o.DataDir)
	}
	return nil
}

// restoredFrom is the file in a data directory that names the snapshot from which [Replace] made it.
const restoredFrom = "member/restored-from"

// Replace makes the data directory of a member, and keeps an existing one under another name. It does nothing if it has made the
// directory from a snapshot of this name, or in a restore of this name, before. So it can run before each start of etcd. It refuses a
// directory that an etcd, or another Replace, uses, and has etcds wait that start meanwhile.
func Replace(ctx context.Context, o RestoreOptions) (made bool, kept string, err error) {
	unlock, err := lockBeside(o.DataDir)
	if err != nil {
		return false, "", err
	}
	defer unlock()
	if same, err := o.restoredBefore(); err != nil || same {
		return false, "", err
	}
	unlockData, err := lockStopped(o.DataDir)
	if err != nil {
		return false, "", err
	}
	defer unlockData()
	snapshot, remove, err := o.fetch(ctx)
	if err != nil {
		return false, "", err
	}
	defer remove()
	if err := cmp.Or(o.checkCluster(snapshot), o.checkForward(snapshot)); err != nil {
		return false, "", err
	}
	// A directory beside it, so that the existing one stays complete if this is interrupted.
	making := o.DataDir + ".restoring"
	if err := os.RemoveAll(making); err != nil {
		return false, "", fmt.Errorf("cannot make a data directory: %w", err)
	}
	if err := o.restore(snapshot.path, making); err != nil {
		return false, "", err
	}
	if err := o.finish(making); err != nil {
		return false, "", fmt.Errorf("cannot make a data directory: %w", err)
	}
	kept = o.keptName(time.Now())
	if err := os.Rename(o.DataDir, kept); errors.Is(err, fs.ErrNotExist) {
		kept = ""
	} else if err != nil {
		return false, "", fmt.Errorf("cannot keep the data that is there: %w", err)
	}
	if err := os.Rename(making, o.DataDir); err != nil {
		if kept != "" {
			err = errors.Join(err, os.Rename(kept, o.DataDir)) // an etcd without data would start empty
		}
		return false, "", fmt.Errorf("cannot put the data directory into its place: %w", err)
	}
	if err := syncPath(filepath.Dir(filepath.Clean(o.DataDir))); err != nil {
		return false, "", fmt.Errorf("cannot put the data directory into its place: %w", err)
	}
	return true, kept, nil
}

// finish names the snapshot in a data directory, and makes the directory survive a crash: a name without its data would count as restored.
func (o *RestoreOptions) finish(dir string) error {
	path := filepath.Join(dir, restoredFrom)
	if err := os.WriteFile(path, []byte(o.restoreName()), 0o600); err != nil {
		return err
	}
	member := filepath.Dir(path)
	for _, path := range []string{path, filepath.Join(member, "snap"), filepath.Join(member, "wal"), member, dir} {
		if err := syncPath(path); err != nil {
			return err
		}
	}
	return nil
}

func (o *RestoreOptions) keptName(now time.Time) string {
	return o.DataDir + ".before-" + now.UTC().Format(timeFormat)
}

// fileName is the name of the snapshot without its directory.
func (o *RestoreOptions) fileName() string {
	if bucket.IsURL(o.File) {
		return path.Base(o.File)
	}
	return filepath.Base(o.File)
}

func (o *RestoreOptions) restoreName() string { return cmp.Or(o.RestoreName, o.fileName()) }

// restoredBefore reports whether Replace has made the data directory, in a restore of this name.
func (o *RestoreOptions) restoredBefore() (bool, error) {
	of, err := os.ReadFile(filepath.Join(o.DataDir, restoredFrom))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("cannot use the data directory: %w", err)
	}
	return err == nil && string(of) == o.restoreName(), nil
}

// checkCluster refuses to replace the data of another etcd.
func (o *RestoreOptions) checkCluster(s *fetched) error {
	there := dataClusterID(o.DataDir)
	if o.OtherCluster || s.clusterID == "" || there == "" || s.clusterID == there {
		return nil
	}
	return fmt.Errorf("%s is of the etcd cluster %s, and %s of %s: --other-cluster restores it nevertheless",
		o.File, s.clusterID, o.DataDir, there)
}

// checkForward refuses a revision that is not beyond that of the data which is there: clients would see a resourceVersion again, with other
// content. Data that cannot be read is no reason to refuse.
func (o *RestoreOptions) checkForward(s *fetched) error {
	there, err := readRevision(filepath.Join(o.DataDir, "member", "snap", "db"))
	if err != nil || s.revision == 0 || s.revision+int64(o.BumpRevision) > there {
		return nil //nolint:nilerr // see above
	}
	return fmt.Errorf("%s is at revision %d, and resourceVersions would go back to %d: give --bump-revision more than %d",
		o.DataDir, there, s.revision+int64(o.BumpRevision), there-s.revision)
}

// restore makes a data directory.
func (o *RestoreOptions) restore(file, dir string) error {
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
		SnapshotPath:        file,
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
