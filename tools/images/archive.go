// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// reference is the name of an image in the two forms in which loaders want it.
type reference struct {
	// short is as people write it: tripod-k8s/tripod-core:v1.
	short string
	// tag is its last part.
	tag string
}

func newReference(repository, tag string) reference {
	return reference{short: repository + ":" + tag, tag: tag}
}

// String returns the name with its registry, as containerd and CRI have it. Names without one are of Docker's.
func (r reference) String() string {
	registry, _, _ := strings.Cut(r.short, "/")
	if strings.ContainsAny(registry, ".:") || registry == "localhost" {
		return r.short
	}
	return "docker.io/" + r.short
}

// writeArchive writes image to path and returns the size of the archive.
func writeArchive(path string, ref reference, image v1.Image) (size int64, err error) {
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	archive := &archiveWriter{tar: tar.NewWriter(file)}
	if err := archive.write(ref, image); err != nil {
		return 0, err
	}
	if err := archive.tar.Close(); err != nil {
		return 0, err
	}
	return file.Seek(0, io.SeekCurrent)
}

type archiveWriter struct{ tar *tar.Writer }

func (a *archiveWriter) write(ref reference, image v1.Image) error {
	if err := a.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	var layerPaths []string
	for _, layer := range layers {
		path, err := a.layer(layer)
		if err != nil {
			return err
		}
		layerPaths = append(layerPaths, path)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	configName, err := image.ConfigName()
	if err != nil {
		return err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	index, err := indexOf(image, ref)
	if err != nil {
		return err
	}
	return errors.Join(
		a.file(blob(configName), config),
		a.file(blob(digest), manifest),
		a.json("index.json", index),
		a.json("manifest.json", []dockerManifest{{Config: blob(configName), RepoTags: []string{ref.short}, Layers: layerPaths}}),
	)
}

// indexOf returns the index of a layout with the one image. Its annotations name the image: the first to containerd and
// Docker, the second to tools that follow the specification of OCI only.
func indexOf(image v1.Image, ref reference) (*v1.IndexManifest, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	size, err := image.Size()
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	return &v1.IndexManifest{
		SchemaVersion: 2,
		MediaType:     types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: types.OCIManifestSchema1,
			Size:      size,
			Digest:    digest,
			Platform:  config.Platform(),
			Annotations: map[string]string{
				"io.containerd.image.name":          ref.String(),
				"org.opencontainers.image.ref.name": ref.tag,
			},
		}},
	}, nil
}

// dockerManifest is an entry of manifest.json, by which Docker before version 25 loads an archive.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

func (a *archiveWriter) layer(layer v1.Layer) (path string, err error) {
	digest, err := layer.Digest()
	if err != nil {
		return "", err
	}
	size, err := layer.Size()
	if err != nil {
		return "", err
	}
	content, err := layer.Compressed()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return blob(digest), a.copy(blob(digest), size, content)
}

func (a *archiveWriter) json(name string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return a.file(name, content)
}

func (a *archiveWriter) file(name string, content []byte) error {
	return a.copy(name, int64(len(content)), bytes.NewReader(content))
}

func (a *archiveWriter) copy(name string, size int64, content io.Reader) error {
	if err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
		return err
	}
	_, err := io.Copy(a.tar, content)
	return err
}
