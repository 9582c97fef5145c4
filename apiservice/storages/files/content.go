// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// refuses returns why a file is none of an object, whatever its content is.
func (d *directory) refuses(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file: replace it by one, or remove it")
	}
	if info.Size() > int64(d.options.MaxFileBytes) {
		return d.tooLarge()
	}
	return nil
}

// misplaced returns why no object can have a file of a name.
func (d *directory) misplaced(name string) error {
	if !strings.HasSuffix(name, extension) {
		return fmt.Errorf("its name does not end with %s: rename or remove it", extension)
	}
	if !d.resource.ClusterScoped && !strings.Contains(name, "/") {
		return errors.New("it is in no directory of a namespace: move it to NAMESPACE/NAME.yaml")
	}
	return nil
}

// read returns the content of a file that was seen. It follows no links, and waits for no pipe.
func (d *directory) read(name string, seen fs.FileInfo) ([]byte, fs.FileInfo, error) {
	opened, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer opened.Close() //nolint:errcheck // it is only read
	info, err := opened.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !os.SameFile(info, seen) {
		return nil, nil, errors.New("another file has taken its place while it was read")
	}
	content, err := io.ReadAll(io.LimitReader(opened, int64(d.options.MaxFileBytes)+1))
	if err == nil && len(content) > d.options.MaxFileBytes {
		err = d.tooLarge()
	}
	return content, info, err
}

func (d *directory) tooLarge() error {
	return fmt.Errorf("it has more than %d bytes", d.options.MaxFileBytes)
}

// edit is an object as an editor has left it in a file.
type edit struct {
	key    string
	object runtime.Object
	// full reports that the file has metadata which only the service gives, because a client has written the object once.
	full bool
	// lacks reports that the file had that before, and no longer has all that the object keeps.
	lacks bool
	// released reports that the object is being deleted, and has no finalizers any more.
	released bool
}

// decode returns the object in a file. known is what was read there before, or nil.
func (d *directory) decode(name string, content []byte, info fs.FileInfo, known *file) (*edit, error) {
	if err := d.misplaced(name); err != nil {
		return nil, err
	}
	object, m, err := d.parse(content)
	if err != nil {
		return nil, err
	}
	if !d.resource.ClusterScoped && m.GetNamespace() == "" {
		m.SetNamespace(path.Dir(name))
	}
	key := d.resource.Prefix + m.GetName()
	if m.GetNamespace() != "" {
		key = d.resource.Prefix + m.GetNamespace() + "/" + m.GetName()
	}
	if want, err := d.fileOf(key); err != nil {
		return nil, err
	} else if want != name {
		return nil, fmt.Errorf("its object is %s/%s, which belongs in %s: rename the file, or change metadata",
			m.GetNamespace(), m.GetName(), filepath.Join(d.path, want))
	}
	m.SetResourceVersion("")
	written, err := runtime.Encode(d.resource.Codec, object)
	if err != nil {
		return nil, err
	}
	e := &edit{key: key, object: object, full: m.GetUID() != ""}
	old := d.store.Object(key)
	e.released = complete(m, old, key, info)
	if d.resource.Admit != nil {
		if err := d.resource.Admit(object, old); err != nil {
			return nil, oneLine(err)
		}
	}
	m.SetResourceVersion("")
	if known != nil && known.full {
		completed, err := runtime.Encode(d.resource.Codec, object)
		if err != nil {
			return nil, err
		}
		e.lacks, e.full = !bytes.Equal(written, completed), true
	}
	return e, nil
}

// parse returns the only object in the content of a file, and its metadata.
func (d *directory) parse(content []byte) (runtime.Object, metav1.Object, error) {
	documents := 0
	for document := range bytes.SplitSeq(append([]byte("\n"), content...), []byte("\n---")) {
		if !onlyComments(document) {
			documents++
		}
	}
	if documents != 1 {
		return nil, nil, fmt.Errorf("it has %d documents: write one object into each file", documents)
	}
	data, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, nil, oneLine(err)
	}
	object, _, err := d.resource.Codec.Decode(data, nil, d.resource.New())
	if err != nil {
		return nil, nil, oneLine(err)
	}
	m, err := meta.Accessor(object)
	return object, m, err
}

// complete sets what an editor need not write. An object keeps what it had, and no editor ends or begins its deletion. Only an empty list
// removes finalizers or owners. complete reports whether the last finalizer of an object that is being deleted is gone.
func complete(m metav1.Object, old runtime.Object, key string, info fs.FileInfo) (released bool) {
	if before, err := meta.Accessor(old); err == nil {
		if m.GetUID() == "" {
			m.SetUID(before.GetUID())
		}
		if m.GetFinalizers() == nil {
			m.SetFinalizers(before.GetFinalizers())
		}
		if m.GetOwnerReferences() == nil {
			m.SetOwnerReferences(before.GetOwnerReferences())
		}
		m.SetCreationTimestamp(before.GetCreationTimestamp())
		m.SetDeletionTimestamp(before.GetDeletionTimestamp())
		m.SetDeletionGracePeriodSeconds(before.GetDeletionGracePeriodSeconds())
		released = before.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) == 0
	}
	if m.GetUID() == "" {
		m.SetUID(types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte("tripod:"+key)).String()))
	}
	if m.GetCreationTimestamp().Time.IsZero() {
		m.SetCreationTimestamp(metav1.NewTime(info.ModTime()).Rfc3339Copy())
	}
	return released
}

func onlyComments(document []byte) bool {
	for line := range bytes.Lines(document) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// maxReason bounds the text about a file.
const maxReason = 500

// oneLine returns an error whose text is in one line of the log.
func oneLine(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return errors.New(text)
}
