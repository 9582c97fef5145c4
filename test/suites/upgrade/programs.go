// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade replaces the services of a running Tripod one at a time: by those with a newer version of Kubernetes, and back.
package upgrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// programs is a folder with the programs of Tripod. It starts with those of one version; Install replaces single ones.
type programs struct {
	folder string
}

const supervisor = "tripod-supervisor"

// names are the programs in the folder.
var names = []string{"tripod", supervisor, "tripod-core", "tripod-extensions", "tripod-aggregator", "wardle"}

func newPrograms(folder, from string) (*programs, error) {
	p := &programs{folder: folder}
	for _, name := range names {
		err := p.install(from, name)
		if errors.Is(err, fs.ErrNotExist) && name == supervisor { // older releases start processes with tripod itself
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// install replaces a program by that of another version, as a package manager does: a running process keeps its own.
func (p *programs) install(from, name string) error {
	path, next := filepath.Join(p.folder, name), filepath.Join(p.folder, name+".next")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	program, err := filepath.EvalSymlinks(filepath.Join(from, name)) // several services may be one program
	if err != nil {
		return fmt.Errorf("no program of this version: %w", err)
	}
	if err := os.Link(program, next); err != nil {
		data, err := os.ReadFile(program) // on another file system
		if err != nil {
			return err
		}
		if err := os.WriteFile(next, data, 0o700); err != nil {
			return err
		}
	}
	return os.Rename(next, path)
}

func (p *programs) path(name string) string { return filepath.Join(p.folder, name) }
