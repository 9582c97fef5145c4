// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/tripod-k8s/tripod/tools/sign/signing"
)

// item is an image or a chart of a release.
type item struct {
	repository name.Repository
	tag        string
	content    content
	digest     v1.Hash
	claims     []claim
}

// content is an image, an index of images or an artifact.
type content interface {
	remote.Taggable
	Digest() (v1.Hash, error)
}

// claim is a statement to sign about something in the repository of an item.
type claim struct {
	// kind is one of those of package signing.
	kind      string
	about     v1.Hash
	predicate json.RawMessage
}

// read returns the images and then the charts in the directory of a release, as they will be in a registry. work is for files that
// items need.
func read(directory, work, registry, builder string) ([]item, error) {
	archives, err := filepath.Glob(filepath.Join(directory, "*.oci.tar"))
	if err != nil {
		return nil, err
	}
	charts, err := filepath.Glob(filepath.Join(directory, "*.tgz"))
	if err != nil {
		return nil, err
	}
	if len(archives) == 0 || len(charts) == 0 {
		return nil, fmt.Errorf("%s has %d images and %d charts; `make release` builds them", directory, len(archives), len(charts))
	}
	host, path, err := splitRegistry(registry)
	if err != nil {
		return nil, err
	}
	r := reader{
		directory: directory, builder: builder, registry: strings.TrimSuffix(registry, "/"), host: host, path: path,
		programs: map[v1.Hash][]string{},
	}
	var items []item
	for i, archive := range archives {
		read, err := r.image(archive, filepath.Join(work, fmt.Sprint(i)))
		if err != nil {
			return nil, fmt.Errorf("cannot read the image %s: %w", archive, err)
		}
		items = append(items, read)
	}
	images := slices.Clone(items)
	for _, path := range charts {
		read, err := r.chart(path, images)
		if err != nil {
			return nil, fmt.Errorf("cannot read the chart %s: %w", path, err)
		}
		items = append(items, read)
	}
	return items, nil
}

type reader struct {
	directory, builder string
	// registry is host and path.
	registry, host, path string
	// programs has the programs in each layer so far. Images share layers.
	programs map[v1.Hash][]string
}

// item returns content under a name below the registry, with the claims that everything has.
func (r reader) item(path, tag string, content content, from source) (item, error) {
	repository, err := name.NewRepository(r.registry + "/" + path)
	if err != nil {
		return item{}, err
	}
	digest, err := content.Digest()
	if err != nil {
		return item{}, err
	}
	provenance, err := r.provenance(from)
	if err != nil {
		return item{}, err
	}
	claims := []claim{{signing.Signature, digest, json.RawMessage("{}")}, {signing.Provenance, digest, provenance}}
	return item{repository, tag, content, digest, claims}, nil
}

// splitRegistry returns the host of a registry, and the path below which images are.
func splitRegistry(registry string) (host, path string, err error) {
	host, path, _ = strings.Cut(strings.TrimSuffix(registry, "/"), "/")
	if !strings.ContainsAny(host, ".:") && host != "localhost" || strings.HasSuffix(host, ":") {
		return "", "", fmt.Errorf("%q names no registry: want a host and a path, such as registry.example.com/tripod-k8s", registry)
	}
	return host, path, nil
}
