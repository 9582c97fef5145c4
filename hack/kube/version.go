// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// versioned are modules whose versions people write into [renamed].
var versioned = []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"}

// renamed are files with the versions of go.mod in between text that people write. So they are here once only, and the copy gets them with
// the versions of its go.mod.
var renamed = []string{"deploy/helm/changes_test.go", "deploy/helm/tripod/values.yaml", "docs/values.md"}

// ignored are the folders of a checkout that git ignores.
var ignored = []string{"bin", "dist", "artifacts", ".tripod"}

// unshared are tools that depend on the version of Kubernetes. The copy builds its own.
var unshared = []string{"deepcopy-gen", "openapi-gen", "protoc-gen-go"}

// version is a minor version of Kubernetes beside that of go.mod.
type version struct {
	// root is the checkout, set the folder with the files of the version, copy that of the copy.
	root, set, copy string
	// names replaces the versions in go.mod.
	names *strings.Replacer
	// written is what write has put into the copy. Meanwhile people may edit this checkout.
	written map[string][]byte
}

func newVersion(root, minor string) (*version, error) {
	v := &version{root: root, set: filepath.Join(root, "kube", minor), copy: filepath.Join(root, "bin", "kube-"+minor)}
	theirs, err := pinned(filepath.Join(v.set, "go.mod"))
	if minor == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("kube/ has no version %q of Kubernetes", minor)
	} else if err != nil {
		return nil, err
	}
	ours, err := pinned(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	var pairs []string
	for i := range ours {
		pairs = append(pairs, ours[i], theirs[i])
	}
	v.names = strings.NewReplacer(pairs...)
	return v, nil
}

// pinned returns the versions of [versioned] in a go.mod.
func pinned(file string) (versions []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, module := range versioned {
		found := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(text)
		if found == nil {
			return nil, fmt.Errorf("%s does not require %s", file, module)
		}
		versions = append(versions, string(found[1]))
	}
	return versions, nil
}

// shared returns a file as the copy has it, unless the version has its own.
func (v *version) shared(name string) (content []byte, info fs.FileInfo, err error) {
	content, info, err = read(filepath.Join(v.root, name))
	if slices.Contains(renamed, name) {
		content = []byte(v.names.Replace(string(content)))
	}
	return content, info, err
}

// write brings the copy up to date. It leaves alone what did not change, for make compares times, and what git ignores.
func (v *version) write(names []string) error {
	if err := v.checkNames(names); err != nil {
		return err
	}
	v.written = map[string][]byte{}
	for _, name := range names {
		content, info, err := read(filepath.Join(v.set, name))
		if errors.Is(err, fs.ErrNotExist) {
			content, info, err = v.shared(name)
		}
		if err == nil {
			err = put(filepath.Join(v.copy, name), content, info)
		}
		if err != nil {
			return err
		}
		v.written[name] = content
	}
	old, err := v.copied()
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, written := v.written[name]; !written {
			if err := os.Remove(filepath.Join(v.copy, name)); err != nil {
				return err
			}
		}
	}
	return v.shareTools()
}

// checkNames returns an error if the version has a file that this checkout does not have, such as after it was renamed here.
func (v *version) checkNames(names []string) error {
	return filepath.WalkDir(v.set, func(path string, entry fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(v.set, path); err == nil && !entry.IsDir() && !slices.Contains(names, name) {
			return fmt.Errorf("%s takes the place of no file: rename or remove it", path)
		}
		return err
	})
}

// copied returns the names of all files of the copy that a checkout would have.
func (v *version) copied() (names []string, err error) {
	err = filepath.WalkDir(v.copy, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(v.copy, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(ignored, name):
			return filepath.SkipDir
		case !entry.IsDir():
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// shareTools links tools that this checkout has built into the copy.
func (v *version) shareTools() error {
	for _, folder := range []string{"bin/tools/*", "bin/kwok", "bin/test-assets/kwok", "bin/test-assets/proxy-*"} {
		found, err := filepath.Glob(filepath.Join(v.root, folder))
		if err != nil {
			return err
		}
		for _, path := range found {
			name, _ := filepath.Rel(v.root, path)
			link := filepath.Join(v.copy, name)
			if _, err := os.Lstat(link); err == nil || slices.Contains(unshared, filepath.Base(path)) {
				continue
			}
			whole, err := filepath.Abs(path)
			if err != nil {
				return err
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o750), os.Symlink(whole, link)); err != nil {
				return err
			}
		}
	}
	return nil
}

// save makes what a command changed in the copy the files of the version, unless this checkout has the same.
func (v *version) save() error {
	names, err := v.copied()
	if err != nil {
		return err
	}
	for name := range v.written {
		if !slices.Contains(names, name) {
			return fmt.Errorf("the command removed %s: remove it yourself, or from kube/", name)
		}
	}
	for _, name := range names {
		content, info, err := read(filepath.Join(v.copy, name))
		if err != nil {
			return err
		}
		if before, known := v.written[name]; known && bytes.Equal(content, before) || strings.HasPrefix(name, "kube/") {
			continue
		}
		if err := v.keep(name, content, info); err != nil {
			return err
		}
	}
	return nil
}

// keep makes a file one of the version, unless this checkout has the same.
func (v *version) keep(name string, content []byte, info fs.FileInfo) error {
	own := filepath.Join(v.set, name)
	shared, _, err := v.shared(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the command made %s, which this checkout does not have", name)
	case err != nil:
		return err
	case !bytes.Equal(content, shared):
		return put(own, content, info)
	}
	if err := os.Remove(own); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func read(path string) (content []byte, info fs.FileInfo, err error) {
	if info, err = os.Stat(path); err == nil {
		content, err = os.ReadFile(path)
	}
	return content, info, err
}

// put writes a file that differs, with the time and mode of what it comes from.
func put(path string, content []byte, from fs.FileInfo) error {
	old, info, err := read(path)
	if err == nil && bytes.Equal(old, content) && info.Mode() == from.Mode() {
		return nil
	}
	return errors.Join(
		os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, content, from.Mode()), os.Chmod(path, from.Mode()),
		os.Chtimes(path, from.ModTime(), from.ModTime()))
}
