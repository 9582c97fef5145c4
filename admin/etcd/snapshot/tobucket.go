// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
)

// Names of metadata of an object, in the form in which servers return them.
const (
	metadataSHA256      = "Sha256"
	metadataRevision    = "Revision"
	metadataClusterID   = "Cluster-Id"
	metadataEtcdVersion = "Etcd-Version"
)

// abandonedAfter is how old the parts of an upload are that never ended.
const abandonedAfter = 24 * time.Hour

// saveToBucket saves a snapshot to a bucket, and then removes what is to go.
func (o SaveOptions) saveToBucket(ctx context.Context) (*Saved, error) {
	_, folder, err := o.object(time.Now())
	if err != nil {
		return nil, err
	}
	client, err := o.Server.Connect(ctx)
	if err != nil {
		return nil, err
	}
	upload := o.uploadNew
	if o.ResumeDir != "" {
		upload = o.uploadKept
	}
	saved, err := upload(ctx, client)
	if err != nil {
		return nil, err
	}
	to, err := bucket.ParseObject(saved.File)
	if err != nil {
		return nil, err
	}
	o.removeParts(ctx, client, to)
	if o.Directory != "" && o.Keep > 0 {
		if saved.Removed, err = o.pruneBucket(ctx, client, folder, to); err != nil {
			err = fmt.Errorf("%s is saved, but older ones cannot be removed: %w", to, err)
		}
	}
	return saved, err
}

// uploadNew saves to a temporary file first: etcd cannot reuse space while it sends, and a bucket may be slow.
func (o SaveOptions) uploadNew(ctx context.Context, client *bucket.Client) (*Saved, error) {
	to, _, err := o.object(time.Now())
	if err != nil {
		return nil, err
	}
	if err := refuseExisting(ctx, client, to); err != nil {
		return nil, err
	}
	temporary, err := os.MkdirTemp("", "tripod-etcd-snapshot-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a temporary directory (TMPDIR says where): %w", err)
	}
	defer os.RemoveAll(temporary) //nolint:errcheck // nothing depends on it
	file := o
	file.File, file.Directory = filepath.Join(temporary, "snapshot"+extension), ""
	saved, err := file.saveFile(ctx)
	if err != nil {
		return nil, err
	}
	local := saved.File
	saved.File = to.String()
	return saved, o.upload(ctx, client, to, local, saved)
}

func refuseExisting(ctx context.Context, client *bucket.Client, to bucket.URL) error {
	exists, err := client.Exists(ctx, to)
	if err == nil && exists {
		err = fmt.Errorf("%s exists, and is not overwritten", to)
	}
	return err
}

// object returns the object to write, and its folder if there is one.
func (o SaveOptions) object(now time.Time) (to, folder bucket.URL, err error) {
	switch {
	case (o.File == "") == (o.Directory == ""):
		return to, folder, errors.New("say where to save: either a file or --directory")
	case o.File != "":
		to, err = bucket.ParseObject(o.File)
		return to, folder, err
	}
	folder, err = bucket.ParseFolder(o.Directory)
	return folder.Join(fileName(o.Name, now)), folder, err
}

// upload uploads a snapshot and reads it back. It leaves nothing if that fails.
func (o SaveOptions) upload(ctx context.Context, client *bucket.Client, to bucket.URL, path string, saved *Saved) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was read
	sent := &counter{}
	stop := o.report(func() string { return fmt.Sprintf("%d of %d MiB sent", sent.Load()>>20, saved.Bytes>>20) })
	tag, err := client.Put(ctx, to, file, saved.Bytes, saved.metadata(), sent)
	stop()
	if err != nil {
		return err
	}
	if err := o.readBack(ctx, client, to, tag, saved); err != nil {
		return discard(ctx, client, to, tag, err)
	}
	return nil
}

// metadata is what an object has beside the snapshot.
func (s *Saved) metadata() map[string]string {
	return map[string]string{
		metadataSHA256: s.SHA256, metadataRevision: strconv.FormatInt(s.Revision, 10),
		metadataClusterID: s.ClusterID, metadataEtcdVersion: s.EtcdVersion,
	}
}

// damagedError is that of an object that is not the snapshot that was sent.
type damagedError struct{ error }

func (e damagedError) Unwrap() error { return e.error }

// readBack returns an error unless the object is the snapshot.
func (o SaveOptions) readBack(ctx context.Context, client *bucket.Client, to bucket.URL, tag string, saved *Saved) error {
	o.Progress("reading back " + to.String())
	check, err := newChecker(to.String(), saved.Bytes)
	if err == nil {
		err = client.Read(ctx, &bucket.Object{URL: to, Bytes: saved.Bytes, Tag: tag}, check)
	}
	if err == nil {
		hash, wrong := check.result()
		if wrong == nil && hash != saved.SHA256 {
			wrong = fmt.Errorf("%s is another snapshot than the one that was sent", to)
		}
		if wrong != nil {
			err = damagedError{wrong}
		}
	}
	if err != nil {
		return fmt.Errorf("the snapshot cannot be read back: %w", err)
	}
	return nil
}

// discard removes what a failed command has left.
func discard(ctx context.Context, client *bucket.Client, to bucket.URL, tag string, err error) error {
	if left := client.RemoveIfSame(ctx, to, tag); left != nil {
		err = fmt.Errorf("%w; remove %s yourself: %w", err, to, left)
	}
	return err
}

// removeParts removes the parts that killed commands have left, which a server counts as space. Without a directory, these are parts of the
// same object.
func (o SaveOptions) removeParts(ctx context.Context, client *bucket.Client, saved bucket.URL) {
	folder := bucket.URL{Bucket: saved.Bucket, Key: strings.TrimSuffix(saved.Key, saved.Name())}
	ours := func(name string) bool { return name == saved.Name() || o.Directory != "" && isSnapshot(name, o.Name) }
	if err := client.RemoveParts(ctx, folder, time.Now().Add(-abandonedAfter), ours); err != nil {
		o.Progress("parts of interrupted uploads may be left: " + err.Error())
	}
}

// pruneBucket removes all snapshots of the name but the newest ones.
func (o SaveOptions) pruneBucket(ctx context.Context, client *bucket.Client, folder, saved bucket.URL) (removed []string, err error) {
	found, err := listBucket(ctx, client, folder, o.Name)
	if err != nil {
		return nil, err
	}
	for _, snapshot := range found[:max(0, len(found)-o.Keep)] {
		if snapshot.URL == saved {
			continue // the clock went back
		}
		if err := client.Remove(ctx, snapshot.URL); err != nil {
			return removed, err
		}
		removed = append(removed, snapshot.URL.String())
	}
	return removed, nil
}

// listBucket returns the snapshots of a name, or all snapshots, the oldest of each name first.
func listBucket(ctx context.Context, client *bucket.Client, folder bucket.URL, name string) ([]bucket.Object, error) {
	prefix := ""
	if name != "" {
		prefix = name + "-"
	}
	objects, err := client.List(ctx, folder, prefix)
	if err != nil {
		return nil, err
	}
	var found []bucket.Object
	for _, o := range objects {
		if o.URL == folder.Join(o.URL.Name()) && (isSnapshot(o.URL.Name(), name) || name == "") {
			found = append(found, o)
		}
	}
	return found, nil
}

// counter counts what passes a progress hook.
type counter struct{ atomic.Int64 }

func (c *counter) Read(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}
