// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/apiservice/internal/revisions"
	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/base/service/filewatch"
)

// directory is that of a resource. What changes it or known holds the lock of writers of the store.
type directory struct {
	options  Options
	resource storages.Resource
	store    *revisions.Store
	path     string
	root     *os.Root
	lock     *os.File
	// known are the files that were there at the last look, by their paths below the directory.
	known map[string]*file
	// namespaces are the directories in it.
	namespaces []string
	// syncFolder makes the names in a directory outlast a crash of the machine.
	syncFolder func(folder string) error
	// problem is why the directory cannot be read. The objects are those of the last look then.
	problem atomic.Pointer[string]
}

// file is one that was read or written.
type file struct {
	info fs.FileInfo
	// settled reports that the file was read long after its last change: another change has another time.
	settled bool
	// sum is that of the content. It is zero if the file was not read.
	sum [sha256.Size]byte
	// key is that of the object, or empty if the file never was one.
	key string
	// full reports that the file has metadata which only the service gives.
	full bool
	// refused says why the file is none now.
	refused string
}

// granularity is how far apart two changes are, at most, that have one time.
const granularity = 2 * time.Second

func (d *directory) close() {
	d.root.Close() //nolint:errcheck // nothing is written any more
	if d.lock != nil {
		d.lock.Close() //nolint:errcheck // see above
	}
	for name := range d.known {
		d.forget(name)
	}
}

// follow looks at the directory whenever something has changed there.
func (d *directory) follow(ctx context.Context) {
	for ctx.Err() == nil {
		watched := slices.Clone(d.namespaces)
		paths := []string{filepath.Join(d.path, "x")}
		for _, namespace := range watched {
			paths = append(paths, filepath.Join(d.path, namespace, "x"))
		}
		until, stop := context.WithCancel(ctx)
		filewatch.Follow(until, func() {
			if err := d.look(); err != nil {
				d.report(err)
			} else if d.problem.Swap(nil) != nil {
				klog.InfoS("The directory can be read again", "directory", d.path)
			}
			if !slices.Equal(watched, d.namespaces) {
				stop() // and watch others
			}
		}, paths...)
		stop()
	}
}

func (d *directory) report(err error) {
	text := fmt.Sprintf("cannot read %s: %v", d.path, err)
	if last := d.problem.Swap(&text); last == nil || *last != text {
		klog.ErrorS(err, "The directory cannot be read. Clients get its objects as they were", "directory", d.path)
	}
}

// look reads all files that have changed. If a directory cannot be read, nothing changes. If that of a namespace has too many files,
// nothing changes there.
func (d *directory) look() error {
	found, full := d.list()
	if found == nil {
		return full
	}
	var changed []string
	d.store.Exclusively(func() {
		for name, known := range d.known {
			if info, ok := found[name]; !ok || !known.settled || !same(known.info, info) {
				changed = append(changed, name)
			}
		}
		for name := range found {
			if d.known[name] == nil {
				changed = append(changed, name)
			}
		}
	})
	slices.Sort(changed)
	for _, name := range changed {
		d.store.Exclusively(func() { d.refresh(name) }) // writes come in between
	}
	return full
}

// list returns the files of the directory, and notes which directories are in it. If a namespace has too many, it returns those that are
// known, and an error.
func (d *directory) list() (map[string]fs.FileInfo, error) {
	if now, err := os.Stat(d.path); err != nil {
		return nil, err
	} else if opened, err := d.root.Stat("."); err != nil || !os.SameFile(now, opened) {
		return nil, errors.Join(errors.New("another directory has taken its place: restart the service"), err)
	}
	found, err := d.entries(".")
	if err != nil || d.resource.ClusterScoped {
		return found, err
	}
	var full error
	var namespaces []string
	for name, info := range found {
		if info.IsDir() {
			namespaces = append(namespaces, name)
			delete(found, name)
		}
	}
	slices.Sort(namespaces)
	d.namespaces = namespaces
	for _, namespace := range namespaces {
		below, err := d.entries(namespace)
		if errors.Is(err, errTooMany) {
			full = errors.Join(full, err)
			below = d.knownIn(namespace)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for name, info := range below {
			found[path.Join(namespace, name)] = info
		}
	}
	return found, full
}

// knownIn returns the files of a directory that were there at the last look.
func (d *directory) knownIn(folder string) map[string]fs.FileInfo {
	found := map[string]fs.FileInfo{}
	d.store.Exclusively(func() {
		for name, known := range d.known {
			if path.Dir(name) == folder {
				found[path.Base(name)] = known.info
			}
		}
	})
	return found
}

// errTooMany says that a directory has more in it than is allowed.
var errTooMany = errors.New("files")

// entries returns what is in a directory and may be meant for an object.
func (d *directory) entries(name string) (map[string]fs.FileInfo, error) {
	opened, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer opened.Close() //nolint:errcheck // it is only read
	found := map[string]fs.FileInfo{}
	for {
		some, err := opened.ReadDir(1000)
		for _, entry := range some {
			if hidden(entry.Name()) {
				continue
			}
			info, err := d.root.Lstat(path.Join(name, entry.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			found[entry.Name()] = info
		}
		if len(found) > d.options.MaxFiles {
			return nil, fmt.Errorf("%s has more than %d %w: remove some", filepath.Join(d.path, name), d.options.MaxFiles, errTooMany)
		}
		if len(some) == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			return found, nil
		}
	}
}

// same reports whether nothing indicates that a file has changed.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Mode() == b.Mode() && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// refresh reads a file that may have changed, and gives the store its object.
func (d *directory) refresh(name string) {
	info, err := d.root.Lstat(name)
	known := d.known[name]
	if errors.Is(err, fs.ErrNotExist) {
		if known != nil && known.key != "" {
			if err := d.store.Set(known.key, nil); err != nil {
				klog.ErrorS(err, "The object of a file that is gone cannot be deleted", "file", filepath.Join(d.path, name))
				return
			}
		}
		d.forget(name)
		return
	}
	next := &file{info: info}
	if known != nil {
		next.key, next.sum, next.full = known.key, known.sum, known.full
	}
	var e *edit
	if err == nil {
		e, err = d.adopt(name, next, known)
	}
	if e != nil && e.released {
		if err = d.release(name, next); err == nil {
			return
		}
	}
	if err != nil {
		next.refused = err.Error()
		if known == nil || known.refused != next.refused {
			klog.ErrorS(err, "A file is refused. If it was an object, clients get that", "file", filepath.Join(d.path, name))
		}
	} else if known != nil && known.refused != "" {
		klog.InfoS("A file is no longer refused", "file", filepath.Join(d.path, name))
	}
	d.remember(name, next)
}

// release removes the file and the object of an object that is being deleted, and which no finalizer holds any more.
func (d *directory) release(name string, next *file) error {
	if err := d.remove(name); err != nil {
		return err
	}
	return d.store.Set(next.key, nil)
}

// restore writes metadata that a client or the service has given an object, and that an editor has left out, into the file again.
// Otherwise, it would be lost when the process ends. It returns ErrConflict if the editor has written the file once more.
func (d *directory) restore(name string, next *file, e *edit) error {
	data, err := runtime.Encode(d.resource.Codec, e.object)
	if err != nil {
		return err
	}
	content, err := encode(data)
	if err != nil {
		return err
	}
	if len(content) > d.options.MaxFileBytes {
		return d.tooLarge()
	}
	written, err := d.write(name, e.key, content, next.info)
	if err == nil {
		*next = *written
	}
	return err
}

// adopt gives the store the object of a file, or returns why it cannot. It settles the file if another try would end alike. It returns no
// edit if the file is as it was.
func (d *directory) adopt(name string, next, known *file) (*edit, error) {
	if err := d.refuses(next.info); err != nil {
		next.settled = true
		return nil, err
	}
	begun := time.Now()
	content, info, err := d.read(name, next.info)
	if err != nil {
		return nil, err
	}
	next.info = info
	settled, sum := begun.Sub(info.ModTime()) > granularity, sha256.Sum256(content)
	if known != nil && known.sum == sum && known.refused == "" {
		next.settled = settled
		return nil, nil
	}
	e, err := d.decode(name, content, info, known)
	if err != nil {
		next.settled = settled
		return nil, err
	}
	if e.released {
		next.key = e.key
		return e, nil
	}
	complete := file{info: info, settled: settled, sum: sum, key: e.key, full: e.full}
	if e.lacks {
		if err := d.restore(name, &complete, e); errors.Is(err, revisions.ErrConflict) {
			return nil, nil // the next look finds it
		} else if err != nil {
			klog.ErrorS(err, "A file lacks metadata of its object, and it cannot be written", "file", filepath.Join(d.path, name))
		}
	}
	if err := d.store.Set(e.key, e.object); err != nil {
		return nil, oneLine(err)
	}
	*next = complete
	return e, nil
}

func (d *directory) remember(name string, f *file) {
	d.forget(name)
	d.known[name] = f
	if f.refused != "" {
		refused.WithLabelValues(d.resource.GroupResource.String()).Inc()
	}
}

func (d *directory) forget(name string) {
	if f := d.known[name]; f != nil && f.refused != "" {
		refused.WithLabelValues(d.resource.GroupResource.String()).Dec()
	}
	delete(d.known, name)
}
