// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/apiservice/internal/revisions"
)

// keep writes or removes the file of an object. It is a [revisions.Keep].
func (d *directory) keep(key string, data []byte) error {
	name, err := d.fileOf(key)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if err := d.unchanged(name); err != nil {
		return err
	}
	if data == nil {
		return d.remove(name)
	}
	content, err := encode(data)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	if len(content) > d.options.MaxFileBytes {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("an object may take %d bytes in its file", d.options.MaxFileBytes))
	}
	var known fs.FileInfo
	if d.known[name] != nil {
		known = d.known[name].info
	}
	written, err := d.write(name, key, content, known)
	if err == nil {
		d.remember(name, written)
	}
	return err
}

// encode returns an object as YAML, which decodes to the same.
func encode(data []byte) ([]byte, error) {
	var escaped bytes.Buffer
	for _, r := range string(data) { // these characters must not be in YAML as they are, and in JSON only strings have them
		if r >= 0x7f && r <= 0x9f || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	content, err := yaml.JSONToYAML(escaped.Bytes())
	if err != nil {
		return nil, err
	}
	read, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, err
	}
	var before, after any
	if err := errors.Join(json.Unmarshal(data, &before), json.Unmarshal(read, &after)); err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(before, after) {
		return nil, apierrors.NewBadRequest("the object cannot be kept as YAML: it has characters that YAML changes")
	}
	return content, nil
}

// unchanged returns an error if a file is not as the store has it.
func (d *directory) unchanged(name string) error {
	if folder, err := d.root.Lstat(path.Dir(name)); err == nil && !folder.IsDir() {
		return apierrors.NewInternalError(fmt.Errorf("%s is no directory", path.Dir(name)))
	}
	known := d.known[name]
	info, err := d.root.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if exists := err == nil; exists != (known != nil) || exists && !same(known.info, info) {
		d.refresh(name)
		if known = d.known[name]; known == nil || known.refused == "" {
			return revisions.ErrConflict
		}
	} else if exists && !known.settled { // an edit may have left its time and size, or was read halfway
		d.refresh(name)
		now := d.known[name]
		if now == nil || now.sum != known.sum && now.refused == "" {
			return revisions.ErrConflict
		}
		known = now
	}
	if known != nil && known.refused != "" {
		return apierrors.NewInternalError(fmt.Errorf("the file %s of the object is refused: %s. Mend or remove it first", name, known.refused))
	}
	return nil
}

func (d *directory) remove(name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.syncFolder(path.Dir(name)); err != nil {
		return err
	}
	d.forget(name) // not before, so that a client can try again
	if folder := path.Dir(name); folder != "." {
		d.root.Remove(folder) //nolint:errcheck // it fails if others are in it
	}
	return nil
}

// write makes content that of a file, at once. known is the file whose place it takes, or nil. If that is not as it was, write returns
// ErrConflict. Others may read the file only if they could before.
func (d *directory) write(name, key string, content []byte, known fs.FileInfo) (*file, error) {
	folder, mode := path.Dir(name), fs.FileMode(0o600)
	if known != nil {
		mode = known.Mode().Perm()
	} else if err := d.room(folder); err != nil {
		return nil, err
	}
	temporary := path.Join(folder, unfinished+path.Base(name)[:min(longest-len(unfinished), len(path.Base(name)))])
	if err := d.fill(temporary, content, mode); err != nil {
		return nil, err
	}
	err := d.stays(name, known) // fill takes long
	if err == nil {
		err = d.root.Rename(temporary, name)
	}
	if err != nil {
		d.root.Remove(temporary) //nolint:errcheck // the first error matters
		return nil, err
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if err := d.syncFolder(folder); err != nil {
		return nil, err
	}
	return &file{info: info, sum: sha256.Sum256(content), key: key, full: true}, nil
}

// stays returns ErrConflict if a file is not as it was, or is there though it was not.
func (d *directory) stays(name string, known fs.FileInfo) error {
	info, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && known == nil || err == nil && known != nil && same(info, known) {
		return nil
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return revisions.ErrConflict
	}
	return err
}

// room makes the directory of a new file, and returns an error if it would have too many.
func (d *directory) room(folder string) error {
	files := 0
	for name := range d.known {
		if path.Dir(name) == folder {
			files++
		}
	}
	if files >= d.options.MaxFiles {
		return insufficient(fmt.Sprintf("%s has %d files, the most that are allowed: delete some objects", filepath.Join(d.path, folder), files))
	}
	if folder == "." {
		return nil
	}
	if err := d.roomForFolder(folder); err != nil {
		return err
	}
	err := d.root.Mkdir(folder, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.syncFolder(".")
}

// roomForFolder returns an error if a directory is new, and there would be too many.
func (d *directory) roomForFolder(folder string) error {
	if _, err := d.root.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there, err := d.entries(".")
	if err == nil && len(there) < d.options.MaxFiles {
		return nil
	}
	if err != nil && !errors.Is(err, errTooMany) {
		return err
	}
	return insufficient(fmt.Sprintf("%s has the most namespaces with objects that are allowed: delete all objects of some", d.path))
}

// insufficient is the error of a write for which there is no room.
func insufficient(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: "InsufficientStorage", Message: message,
	}}
}

// fill writes a new file to the disk.
func (d *directory) fill(name string, content []byte, mode fs.FileMode) error {
	opened, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = opened.Write(content)
	if err == nil && mode != 0o600 {
		err = opened.Chmod(mode)
	}
	if err == nil {
		err = opened.Sync()
	}
	if err = errors.Join(err, opened.Close()); err != nil {
		d.root.Remove(name) //nolint:errcheck // the first error matters
	}
	return err
}

// sync is syncFolder on a disk.
func (d *directory) sync(folder string) error {
	opened, err := d.root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

// removeUnfinished removes what a process that ended has not finished. No other process writes: the directory is locked.
func (d *directory) removeUnfinished() {
	fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error { //nolint:errcheck // look reports what is wrong
		if err == nil && entry.Type().IsRegular() && strings.HasPrefix(path.Base(name), unfinished) {
			d.root.Remove(name) //nolint:errcheck // the next write of the same object fails with the same reason
		}
		return nil
	})
}
