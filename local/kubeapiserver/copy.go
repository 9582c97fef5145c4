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
	"sync"

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
	programs := []string{supervisor.Program}
	for _, service := range services {
		programs = append(programs, list.Program(string(service)))
	}
	linked := sync.OnceValue(func() error { return copyBeside(list.LinkedProgram, to) })
	for _, name := range programs {
		path, err := replicas.Binary(name)
		if err != nil {
			return err
		}
		if target, notLink := os.Readlink(path); notLink == nil && target == list.LinkedProgram {
			if err = linked(); err == nil { // no link takes the place of a program before what it refers to is there
				err = link(target, filepath.Join(to, name))
			}
		} else {
			err = copyProgram(path, filepath.Join(to, name))
		}
		if err != nil {
			return err
		}
	}
	self, err := replicas.Self()
	if err != nil {
		return err
	}
	return copyProgram(self, filepath.Join(to, Name))
}

// copyBeside copies a program that is beside this one, under its name.
func copyBeside(name, to string) error {
	path, err := replicas.Binary(name)
	if err != nil {
		return err
	}
	return copyProgram(path, filepath.Join(to, name))
}

func copyProgram(from, to string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot copy %s to %s: %w", from, to, err)
		}
	}()
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
	err := os.Symlink(target, tmp)
	if err == nil {
		if err = os.Rename(tmp, path); err != nil {
			os.Remove(tmp) //nolint:errcheck // the first error matters
		}
	}
	if err != nil {
		return fmt.Errorf("cannot link %s to %s: %w", path, target, err)
	}
	return nil
}
