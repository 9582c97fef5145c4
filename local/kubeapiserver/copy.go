// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tripod-k8s/tripod/local/replicas"
	"github.com/tripod-k8s/tripod/local/supervisor"
	"github.com/tripod-k8s/tripod/services/list"
)

// Copy copies the programs that together are kube-apiserver to a directory, where this one gets the name kube-apiserver. Each takes the
// place of a program of the same name at once. kube-apiserver is the last, so that it never starts without the others.
func Copy(to string) error {
	if info, err := os.Stat(to); err != nil || !info.IsDir() {
		return errors.Join(fmt.Errorf("%s is no directory", to), err)
	}
	programs := []string{supervisor.Program, list.LinkedProgram}
	for _, service := range services {
		programs = append(programs, list.Program(string(service)))
	}
	for _, name := range programs {
		from, err := replicas.Binary(name)
		if err != nil {
			return err
		}
		if err := copyProgram(from, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	self, err := replicas.Self()
	if err != nil {
		return err
	}
	return copyProgram(self, filepath.Join(to, Name))
}

// copyProgram copies a program, or makes the same symbolic link.
func copyProgram(from, to string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot copy %s to %s: %w", from, to, err)
		}
	}()
	if target, notLink := os.Readlink(from); notLink == nil {
		return link(target, to)
	}
	content, err := os.Open(from)
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // only read
	tmp, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(tmp, content)
	if err = errors.Join(err, tmp.Chmod(0o755), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), to)
	}
	if err != nil {
		os.Remove(tmp.Name()) //nolint:errcheck // the first error matters
	}
	return err
}

// link makes a symbolic link, which takes the place of what has this name at once.
func link(target, path string) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-"+rand.Text())
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}
