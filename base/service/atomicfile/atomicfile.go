// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces a file at once, so that a reader never sees half of it.
package atomicfile

import (
	"fmt"
	"os"
	"path/filepath"
)

// Write makes data the content of the file at path. Only the owner can read the file, unless prepare, which gets the path of the new file
// before others see it, changes that.
func Write(path string, data []byte, prepare ...func(path string) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot write %s: %w", path, err)
		}
	}()
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // made with mode 0600
	if err != nil {
		return err
	}
	if err := fill(tmp, data); err != nil {
		return err
	}
	for _, step := range append(prepare, func(tmp string) error { return os.Rename(tmp, path) }) {
		if err := step(tmp.Name()); err != nil {
			os.Remove(tmp.Name()) //nolint:errcheck // the first error matters
			return err
		}
	}
	return nil
}

// fill writes and closes the temporary file, or removes it.
func fill(tmp *os.File, data []byte) error {
	_, err := tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		os.Remove(tmp.Name()) //nolint:errcheck // the first error matters
	}
	return err
}
