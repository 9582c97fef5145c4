// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// writeArchive packs the binaries for platform and the documents into one directory of a compressed archive.
func (r release) writeArchive(platform string) error {
	base := r.base(platform)
	return writeFile(filepath.Join(r.output, base+".tar.gz"), func(w io.Writer) error {
		compressed := gzip.NewWriter(w)
		archive := tar.NewWriter(compressed)
		for _, document := range r.documents {
			if err := r.add(archive, base+"/"+filepath.Base(document), document, 0o644); err != nil {
				return err
			}
		}
		for _, program := range r.programs() {
			if err := r.add(archive, base+"/"+program, r.binary(platform, program), 0o755); err != nil {
				return err
			}
		}
		return errors.Join(archive.Close(), compressed.Close())
	})
}

func (r release) add(archive *tar.Writer, name, path string, mode int64) error {
	target, err := linkTarget(path)
	if err != nil {
		return err
	}
	if target != "" {
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: r.created})
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size(), ModTime: r.created}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// linkTarget returns what a symbolic link refers to, or nothing for a file.
func linkTarget(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSymlink {
		return "", err
	}
	return os.Readlink(path)
}
