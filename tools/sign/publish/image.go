// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tripod-k8s/tripod/tools/sign/signing"
)

// source says from what something was built, by the labels of images.
type source struct{ version, revision, repository string }

func sourceOf(image v1.Image) (source, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return source{}, err
	}
	label := func(name string) string { return config.Config.Labels["org.opencontainers.image."+name] }
	from := source{label("version"), label("revision"), label("source")}
	if from.version == "" || from.revision == "" || from.repository == "" {
		return source{}, fmt.Errorf("it does not say from what it was built: its labels are %q", config.Config.Labels)
	}
	return from, nil
}

// image returns the image in an archive. The image of each platform has its own list of components.
func (r reader) image(archive, work string) (item, error) {
	program, tag, content, err := open(archive, work)
	if err != nil {
		return item{}, err
	}
	images, err := platforms(content)
	if err != nil {
		return item{}, err
	}
	if len(images) == 0 {
		return item{}, errors.New("it has no platforms")
	}
	from, err := sourceOf(images[0])
	if err != nil {
		return item{}, err
	}
	all, err := r.item(program, tag, content, from)
	if err != nil {
		return item{}, err
	}
	for _, image := range images {
		components, err := r.components(program, image, from)
		if err != nil {
			return item{}, fmt.Errorf("cannot list its components: %w", err)
		}
		all.claims = append(all.claims, components)
	}
	return all, nil
}

// components returns the claim that lists what is in an image, from the list of its platform in the release.
func (r reader) components(program string, image v1.Image, from source) (claim, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return claim{}, err
	}
	digest, err := image.Digest()
	if err != nil {
		return claim{}, err
	}
	programs, err := r.programsOf(image)
	if err != nil {
		return claim{}, err
	}
	file := fmt.Sprintf("tripod-%s-%s-%s.cdx.json", from.version, config.OS, config.Architecture)
	list, err := os.ReadFile(filepath.Join(r.directory, file))
	if err != nil {
		return claim{}, err
	}
	predicate, err := componentsOf(list, program, from.version, programs)
	if err != nil {
		return claim{}, fmt.Errorf("%s: %w", file, err)
	}
	return claim{signing.SBOM, digest, predicate}, nil
}
