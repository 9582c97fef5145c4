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

// reference is the name of an image in the two forms that loaders need.
type reference struct {
	// short is the form that people write: tripod-k8s/tripod-core:v1.
	short string
	// tag is its last part.
	tag string
}

func newReference(repository, tag string) reference {
	return reference{short: repository + ":" + tag, tag: tag}
}

// String returns the name with its registry, as containerd and CRI need it. Names without a registry are Docker Hub's.
func (r reference) String() string {
	registry, _, _ := strings.Cut(r.short, "/")
	if strings.ContainsAny(registry, ".:") || registry == "localhost" {
		return r.short
	}
	return "docker.io/" + r.short
}

// writeArchive writes an image, one for each platform, to path. It returns the digest by which the image is known and the size of the
// archive.
func writeArchive(path string, ref reference, platforms []v1.Image) (digest v1.Hash, size int64, err error) {
	file, err := os.Create(path)
	if err != nil {
		return v1.Hash{}, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	archive := &archiveWriter{tar: tar.NewWriter(file), written: map[string]bool{}}
	if digest, err = archive.write(ref, platforms); err != nil {
		return v1.Hash{}, 0, err
	}
	if err := archive.tar.Close(); err != nil {
		return v1.Hash{}, 0, err
	}
	size, err = file.Seek(0, io.SeekCurrent)
	return digest, size, err
}

type archiveWriter struct {
	tar *tar.Writer
	// written has the names of the files so far, because platforms share layers.
	written map[string]bool
}

func (a *archiveWriter) write(ref reference, platforms []v1.Image) (v1.Hash, error) {
	if err := a.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return v1.Hash{}, err
	}
	var docker []dockerManifest
	for _, image := range platforms {
		entry, err := a.image(image)
		if err != nil {
			return v1.Hash{}, err
		}
		entry.RepoTags = []string{ref.short}
		if len(platforms) > 1 {
			config, err := image.ConfigFile()
			if err != nil {
				return v1.Hash{}, err
			}
			entry.RepoTags = []string{ref.short + "-" + config.Architecture}
		}
		docker = append(docker, entry)
	}
	root, err := a.root(platforms)
	if err != nil {
		return v1.Hash{}, err
	}
	// The first annotation names the image to containerd and Docker, the second to tools that follow only the specification of OCI.
	root.Annotations = map[string]string{
		"io.containerd.image.name":          ref.String(),
		"org.opencontainers.image.ref.name": ref.tag,
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{root}}
	return root.Digest, errors.Join(a.json("index.json", index), a.json("manifest.json", docker))
}

// image writes the layers, the configuration and the manifest of image.
func (a *archiveWriter) image(image v1.Image) (dockerManifest, error) {
	layers, err := image.Layers()
	if err != nil {
		return dockerManifest{}, err
	}
	var entry dockerManifest
	for _, layer := range layers {
		path, err := a.layer(layer)
		if err != nil {
			return dockerManifest{}, err
		}
		entry.Layers = append(entry.Layers, path)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return dockerManifest{}, err
	}
	configName, err := image.ConfigName()
	if err != nil {
		return dockerManifest{}, err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return dockerManifest{}, err
	}
	digest, err := image.Digest()
	if err != nil {
		return dockerManifest{}, err
	}
	entry.Config = blob(configName)
	return entry, errors.Join(a.file(entry.Config, config), a.file(blob(digest), manifest))
}

// root returns what the index of the layout refers to: the image itself if it is for one platform, otherwise an index of platforms, which
// root writes.
func (a *archiveWriter) root(platforms []v1.Image) (v1.Descriptor, error) {
	var descriptors []v1.Descriptor
	for _, image := range platforms {
		digest, err := image.Digest()
		if err != nil {
			return v1.Descriptor{}, err
		}
		size, err := image.Size()
		if err != nil {
			return v1.Descriptor{}, err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return v1.Descriptor{}, err
		}
		descriptors = append(descriptors, v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Size: size, Digest: digest, Platform: config.Platform(),
		})
	}
	if len(descriptors) == 1 {
		return descriptors[0], nil
	}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: descriptors})
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(index))
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: types.OCIImageIndex, Size: size, Digest: digest}, a.file(blob(digest), index)
}

// dockerManifest is an entry of manifest.json, by which Docker without containerd's image store loads an archive. A tag means one platform
// there, so an image for several has a tag for each: v1-amd64.
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
	if a.written[name] {
		return nil
	}
	a.written[name] = true
	if err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
		return err
	}
	_, err := io.Copy(a.tar, content)
	return err
}
