// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
)

// File is a snapshot in a directory or a bucket.
type File struct {
	File  string    `json:"file"`
	Time  time.Time `json:"time"`
	Bytes int64     `json:"bytes"`
}

// ListOptions say which snapshots to list.
type ListOptions struct {
	// Directory is a directory, or a folder in a bucket: s3://BUCKET/PREFIX.
	Directory string
	// Name is that of the snapshots to list. Empty means all files whose names end as those of snapshots do.
	Name string
	// Server is that of the bucket.
	Server bucket.Server
}

// List returns the snapshots in a directory, sorted by file name: those of one name by time.
func List(ctx context.Context, o ListOptions) ([]File, error) {
	if !bucket.IsURL(o.Directory) {
		return o.files()
	}
	folder, err := bucket.ParseFolder(o.Directory)
	if err != nil {
		return nil, err
	}
	client, err := o.Server.Connect(ctx)
	if err != nil {
		return nil, err
	}
	objects, err := listBucket(ctx, client, folder, o.Name)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, object := range objects {
		if strings.HasSuffix(object.URL.Key, extension) {
			files = append(files, File{File: object.URL.String(), Time: object.Time.UTC(), Bytes: object.Bytes})
		}
	}
	return files, nil
}

func (o ListOptions) files() ([]File, error) {
	entries, err := os.ReadDir(o.Directory)
	if err != nil {
		return nil, fmt.Errorf("cannot list snapshots: %w", err)
	}
	var files []File
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, extension) || (o.Name != "" && !isSnapshot(name, o.Name)) {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list snapshots: %w", err)
		}
		files = append(files, File{File: filepath.Join(o.Directory, name), Time: info.ModTime().UTC(), Bytes: info.Size()})
	}
	return files, nil
}
