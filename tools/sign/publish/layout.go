// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// nameAnnotation is the annotation by which an archive of command images says the name of its image.
const nameAnnotation = "io.containerd.image.name"

// open unpacks an OCI archive and returns the image in it, with its name: tripod-core and v0.1.0.
func open(archive, into string) (program, tag string, image content, err error) {
	if err := unpack(archive, into); err != nil {
		return "", "", nil, err
	}
	index, err := layout.ImageIndexFromPath(into)
	if err != nil {
		return "", "", nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", "", nil, err
	}
	if len(manifest.Manifests) != 1 {
		return "", "", nil, fmt.Errorf("it has %d images, want one", len(manifest.Manifests))
	}
	root := manifest.Manifests[0]
	reference := root.Annotations[nameAnnotation]
	program, tag, named := strings.Cut(reference[strings.LastIndex(reference, "/")+1:], ":")
	if !named {
		return "", "", nil, fmt.Errorf("its image has the name %q, want one with a tag", reference)
	}
	if root.MediaType.IsIndex() {
		image, err = index.ImageIndex(root.Digest)
	} else {
		image, err = index.Image(root.Digest)
	}
	return program, tag, image, err
}

// unpack writes the files of an archive below a directory.
func unpack(archive, into string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("it has a file with the name %q", header.Name)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := write(filepath.Join(into, header.Name), reader); err != nil { //nolint:gosec // the name is local
			return err
		}
	}
}

func write(path string, content io.Reader) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.Copy(file, content)
	return err
}

// platforms returns the images of an index, or the only one.
func platforms(image content) ([]v1.Image, error) {
	switch image := image.(type) {
	case v1.Image:
		return []v1.Image{image}, nil
	case v1.ImageIndex:
		manifest, err := image.IndexManifest()
		if err != nil {
			return nil, err
		}
		var images []v1.Image
		for _, descriptor := range manifest.Manifests {
			of, err := image.Image(descriptor.Digest)
			if err != nil {
				return nil, err
			}
			images = append(images, of)
		}
		return images, nil
	}
	return nil, fmt.Errorf("%T is no image", image)
}

// programsOf returns the names of the files in the directory of programs of an image.
func (r reader) programsOf(image v1.Image) ([]string, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		if _, known := r.programs[digest]; !known {
			if r.programs[digest], err = programsIn(layer); err != nil {
				return nil, err
			}
		}
		all = append(all, r.programs[digest]...)
	}
	return all, nil
}

func programsIn(layer v1.Layer) (programs []string, err error) {
	content, err := layer.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return programs, nil
		}
		if err != nil {
			return nil, err
		}
		if name, found := strings.CutPrefix(header.Name, "usr/local/bin/"); found && header.Typeflag == tar.TypeReg {
			programs = append(programs, name)
		}
	}
}
