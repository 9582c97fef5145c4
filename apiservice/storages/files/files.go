// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package files keeps objects in a directory, each in a YAML file: DIRECTORY/RESOURCE.GROUP/NAMESPACE/NAME.yaml, without NAMESPACE if the
// resource is cluster-scoped. A write through the API is in the file, on the disk, before any client sees it. A file that an editor writes,
// changes or removes becomes an event within seconds.
//
// A file that cannot be an object is refused: it is no YAML, it is invalid, its name is not that of the object, it is too large, or it is a
// link. The log says so in one line, and the metric tripod_storage_refused_files counts such files. All other files are served. If the file
// was an object before, clients see that until the file is mended or removed, and cannot change it meanwhile.
//
// One process uses a directory, so run such a service with one replica, also during upgrades: strategy Recreate.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/apiservice/internal/revisions"
	"github.com/tripod-k8s/tripod/apiservice/storages"
)

// Options say where files are, and bound them. Zero values take the defaults.
type Options struct {
	// Directory exists, and has a directory for each resource.
	Directory string
	// MaxFileBytes bounds a file: 1.5 MiB by default, as etcd bounds an object. A larger write gets the status 413.
	MaxFileBytes int
	// MaxFiles bounds what is in the directory of a namespace, and how many namespaces have one: 10,000 by default.
	MaxFiles int
	// MaxBytes, HistoryChanges and HistoryBytes are as for apiservice/storages/memory: the objects of all files are in memory.
	MaxBytes       int64
	HistoryChanges int
	HistoryBytes   int64
}

const (
	defaultMaxFileBytes = 3 << 19
	defaultMaxFiles     = 10_000
)

// Open keeps the objects of a resource in files. It is a [storages.Open].
func (o Options) Open(r storages.Resource) (storage.Interface, func(), error) {
	o.MaxFileBytes, o.MaxFiles = cmp.Or(o.MaxFileBytes, defaultMaxFileBytes), cmp.Or(o.MaxFiles, defaultMaxFiles)
	if o.Directory == "" || o.MaxFileBytes < 0 || o.MaxFiles < 0 {
		return nil, nil, fmt.Errorf("storage of %s: Directory is required, and limits are positive", r.GroupResource)
	}
	kept, err := revisions.New(r, revisions.Options{MaxBytes: o.MaxBytes, HistoryChanges: o.HistoryChanges, HistoryBytes: o.HistoryBytes})
	if err != nil {
		return nil, nil, err
	}
	d, err := o.directory(r, kept)
	if err != nil {
		kept.Close()
		return nil, nil, fmt.Errorf("storage of %s: %w", r.GroupResource, err)
	}
	kept.KeepBy(d.keep)
	if err := d.openGate(); err != nil {
		kept.Close()
		d.close()
		return nil, nil, fmt.Errorf("storage of %s: %w", r.GroupResource, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.follow(ctx)
	}()
	return &store{kept, d}, func() {
		cancel()
		<-done
		kept.Close()
		d.close()
	}, nil
}

// store is a storage.Interface.
type store struct {
	*revisions.Store
	directory *directory
}

// ReadinessCheck implements storage.Interface.
func (s *store) ReadinessCheck() error {
	if problem := s.directory.problem.Load(); problem != nil {
		return apierrors.NewServiceUnavailable(*problem)
	}
	return s.Store.ReadinessCheck()
}

// syncNames makes the names in the directory of all resources outlast a crash of the machine.
func syncNames(directory string) error {
	opened, err := os.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

// directory opens the directory of a resource, and reads it.
func (o Options) directory(r storages.Resource, kept *revisions.Store) (*directory, error) {
	path := filepath.Join(o.Directory, r.GroupResource.String())
	if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: create it", o.Directory)
	} else if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := syncNames(o.Directory); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", path)
	}
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	d := &directory{options: o, resource: r, store: kept, path: path, root: root, known: map[string]*file{}}
	d.syncFolder = d.sync
	if d.lock, err = lock(root); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), root.Close())
	}
	d.removeUnfinished()
	if err := d.look(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}
