// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	gcr "github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonroot is the user that runs the services. It is a number, so that Kubernetes can see that it is not root. Other images
// without a shell use the same.
const nonroot = "65532:65532"

// tarball is an uncompressed layer, which can be opened more than once.
type tarball func() (io.ReadCloser, error)

// layers are the layers made so far, so that a binary in several images is compressed once.
type layers map[string]v1.Layer

func (l layers) get(name string, files func() (tarball, error)) (v1.Layer, error) {
	if layer, ok := l[name]; ok {
		return layer, nil
	}
	open, err := files()
	if err != nil {
		return nil, err
	}
	layer, err := gcr.LayerFromOpener(gcr.Opener(open), gcr.WithMediaType(types.OCILayer),
		gcr.WithCompressionLevel(gzip.BestSpeed), gcr.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("layer of %s: %w", name, err)
	}
	l[name] = layer
	return layer, nil
}

// layerWriter writes the files of a layer. All belong to root and have the same time.
type layerWriter struct {
	*tar.Writer
	modified time.Time
}

func (w *layerWriter) add(header tar.Header, content io.Reader) error {
	header.Name = strings.TrimPrefix(header.Name, "/")
	header.ModTime = w.modified
	header.Format = tar.FormatPAX
	if err := w.WriteHeader(&header); err != nil {
		return err
	}
	if content == nil {
		return nil
	}
	_, err := io.Copy(w, content)
	return err
}

func (w *layerWriter) directory(name string, mode int64) error {
	return w.add(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

func (w *layerWriter) file(name string, content []byte) error {
	return w.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, bytes.NewReader(content))
}

// baseFiles is the first layer of all images: users, CA certificates, and a writable directory.
func baseFiles(modified time.Time) (tarball, error) {
	return inMemory(modified, func(w *layerWriter) error {
		roots, err := certificates()
		return errors.Join(err,
			w.directory("etc", 0o755),
			w.file("etc/passwd", []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n")),
			w.file("etc/group", []byte("root:x:0:\nnonroot:x:65532:\n")),
			w.directory("etc/ssl", 0o755),
			w.directory("etc/ssl/certs", 0o755),
			w.file("etc/ssl/certs/ca-certificates.crt", roots),
			w.directory("tmp", 0o1777),
			w.directory("usr", 0o755),
			w.directory("usr/local", 0o755),
			w.directory("usr/local/bin", 0o755),
		)
	})
}

// certificates returns Mozilla's CA certificates at the version in go.mod, for webhooks, issuers and key services with public
// certificates.
func certificates() ([]byte, error) {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		// A PEM file cannot limit the trust in a CA to some names or to a date.
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// links is a layer with symbolic links in binaryDir. linked has what each refers to.
func links(linked map[string]string, modified time.Time) (tarball, error) {
	return inMemory(modified, func(w *layerWriter) error {
		for _, link := range slices.Sorted(maps.Keys(linked)) {
			err := w.add(tar.Header{Typeflag: tar.TypeSymlink, Name: binaryDir + link, Linkname: linked[link], Mode: 0o777}, nil)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func inMemory(modified time.Time, write func(*layerWriter) error) (tarball, error) {
	var content bytes.Buffer
	w := &layerWriter{tar.NewWriter(&content), modified}
	if err := errors.Join(write(w), w.Close()); err != nil {
		return nil, err
	}
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }, nil
}

// binaryFile is a layer with the binary from at the path to.
func binaryFile(from, to string, modified time.Time) (tarball, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	return func() (io.ReadCloser, error) {
		file, err := os.Open(from)
		if err != nil {
			return nil, err
		}
		reader, writer := io.Pipe()
		go func() {
			w := &layerWriter{tar.NewWriter(writer), modified}
			err := w.add(tar.Header{Typeflag: tar.TypeReg, Name: path.Clean(to), Mode: 0o755, Size: info.Size()}, file)
			writer.CloseWithError(errors.Join(err, w.Close(), file.Close()))
		}()
		return reader, nil
	}, nil
}

// binaryPlatform returns the platform of a binary, which must be linked statically: the images have no C library and no loader.
func binaryPlatform(path string) (v1.Platform, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return v1.Platform{}, fmt.Errorf("%w; run `make build`", err)
	}
	var platform v1.Platform
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS":
			platform.OS = setting.Value
		case "GOARCH":
			platform.Architecture = setting.Value
		}
	}
	binary, err := elf.Open(path)
	if err != nil {
		return v1.Platform{}, fmt.Errorf("%s is not a binary for Linux: %w", path, err)
	}
	defer binary.Close() //nolint:errcheck // only read
	for _, program := range binary.Progs {
		if program.Type == elf.PT_INTERP {
			return v1.Platform{}, fmt.Errorf("%s is linked dynamically; build it with CGO_ENABLED=0", path)
		}
	}
	return platform, nil
}
