// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// artifact is a manifest with one layer and a configuration that need not be that of an image.
type artifact struct {
	manifest, config []byte
	layer            v1.Layer
}

// blob is content with its media type.
type blob struct {
	mediaType types.MediaType
	content   []byte
}

func (b blob) descriptor() (v1.Descriptor, error) {
	digest, size, err := v1.SHA256(bytes.NewReader(b.content))
	return v1.Descriptor{MediaType: b.mediaType, Size: size, Digest: digest}, err
}

// newArtifact returns an artifact. If subject is not nil, it refers to that: it says something about it.
func newArtifact(kind string, config, layer blob, subject *v1.Descriptor, annotations map[string]string) (v1.Image, error) {
	ofConfig, err := config.descriptor()
	if err != nil {
		return nil, err
	}
	ofLayer, err := layer.descriptor()
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(struct {
		v1.Manifest
		ArtifactType string `json:"artifactType,omitempty"`
	}{v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: ofConfig, Layers: []v1.Descriptor{ofLayer}, Subject: subject, Annotations: annotations,
	}, kind})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(artifact{manifest, config.content, static.NewLayer(layer.content, layer.mediaType)})
}

// MediaType returns that of the manifest.
func (artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest returns the manifest.
func (a artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// RawConfigFile returns the configuration.
func (a artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// LayerByDigest returns the layer.
func (a artifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	if own, err := a.layer.Digest(); err != nil || own != digest {
		return nil, fmt.Errorf("no layer has the digest %s", digest)
	}
	return a.layer, nil
}
