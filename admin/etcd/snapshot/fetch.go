// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
)

// fetched is a snapshot whose hash is correct.
type fetched struct {
	// path is the file with the snapshot.
	path     string
	bytes    int64
	sha256   string
	revision int64
	// clusterID is nothing if the snapshot does not say of which etcd it is.
	clusterID string
}

// fetch checks a snapshot, and downloads it if it is in a bucket. remove removes what it has downloaded.
func (o *RestoreOptions) fetch(ctx context.Context) (s *fetched, remove func(), err error) {
	if !bucket.IsURL(o.File) {
		if s, err = o.checkFile(); err == nil {
			err = o.checkRoom(s.bytes)
		}
		return s, func() {}, err
	}
	client, object, err := o.object(ctx)
	if err == nil {
		err = o.checkRoom(object.Bytes)
	}
	if err != nil {
		return nil, nil, err
	}
	parent := filepath.Dir(filepath.Clean(o.DataDir))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, nil, err
	}
	// Beside the data directory: the volume has room for it.
	temporary, err := os.MkdirTemp(parent, ".tripod-etcd-restore-")
	if err != nil {
		return nil, nil, fmt.Errorf("cannot download the snapshot: %w", err)
	}
	remove = func() { os.RemoveAll(temporary) } //nolint:errcheck // nothing depends on it
	if s, err = o.download(ctx, client, object, filepath.Join(temporary, o.fileName())); err != nil {
		remove()
		return nil, nil, err
	}
	return s, remove, nil
}

// object finds the snapshot in its bucket.
func (o *RestoreOptions) object(ctx context.Context) (*bucket.Client, *bucket.Object, error) {
	from, err := bucket.ParseObject(o.File)
	if err != nil {
		return nil, nil, err
	}
	client, err := o.Server.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	object, err := client.Stat(ctx, from)
	return client, object, err
}

func (o *RestoreOptions) download(ctx context.Context, client *bucket.Client, object *bucket.Object, path string) (s *fetched, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s, err = o.readObject(ctx, client, object, file)
	if s != nil {
		s.path = path
	}
	return s, err
}

// readObject checks an object while it writes it.
func (o *RestoreOptions) readObject(ctx context.Context, client *bucket.Client, object *bucket.Object, to io.Writer) (*fetched, error) {
	s := &fetched{bytes: object.Bytes, clusterID: object.Metadata[metadataClusterID]}
	s.revision, _ = strconv.ParseInt(object.Metadata[metadataRevision], 10, 64) // another program may have uploaded it
	if o.SkipHashCheck {
		return s, client.Read(ctx, object, to)
	}
	check, err := newChecker(o.File, object.Bytes)
	if err != nil {
		return nil, err
	}
	if err := client.Read(ctx, object, io.MultiWriter(to, check)); err != nil {
		return nil, err
	}
	if s.sha256, err = check.result(); err != nil {
		return s, err
	}
	return s, o.checkHash(s)
}

// checkHash refuses another snapshot than the one that is expected.
func (o *RestoreOptions) checkHash(s *fetched) error {
	if o.SHA256 == "" || o.SHA256 == s.sha256 {
		return nil
	}
	return fmt.Errorf("%s has the SHA-256 %s, not %s: it is another snapshot than before", o.File, s.sha256, o.SHA256)
}

func (o *RestoreOptions) checkFile() (*fetched, error) {
	if o.SkipHashCheck {
		info, err := os.Stat(o.File)
		if err != nil {
			return nil, err
		}
		return &fetched{path: o.File, bytes: info.Size()}, nil
	}
	bytes, hash, err := verify(o.File)
	if err != nil {
		return nil, err
	}
	s := &fetched{path: o.File, bytes: bytes, sha256: hash}
	if s.revision, err = readRevision(o.File); err != nil {
		return nil, err
	}
	return s, o.checkHash(s)
}

// readRevision reads the revision of a database, and checks its structure.
func readRevision(path string) (int64, error) {
	status, err := snapshot.NewV3(zap.NewNop()).Status(path)
	if err != nil {
		return 0, fmt.Errorf("cannot read the database in %s: %w", path, err)
	}
	return status.Revision, nil
}
