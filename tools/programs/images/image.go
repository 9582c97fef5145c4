// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// binaryDir is the directory of the binaries in the images.
const binaryDir = "/usr/local/bin/"

// spec describes an image.
type spec struct {
	name, title, description string
	// binaries go to binaryDir. The first one is the entrypoint. One that is a symbolic link is a link in the image, too, beside what it
	// refers to.
	binaries []string
	// links are other names of the entrypoint.
	links []string
	// user runs the processes. Empty means root.
	user string
	// tag is another tag than that of the version of Tripod.
	tag string
}

// service is an entry of the list of services.
type service struct {
	Name, Does string
	Optional   bool
}

func readServices(path string) ([]service, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var services []service
	if err := json.Unmarshal(content, &services); err != nil || len(services) == 0 {
		return nil, fmt.Errorf("%s is no list of services: %w", path, err)
	}
	return services, nil
}

// imagesOf returns an image for each service, and that of the command line, which has the binaries of commands.
func imagesOf(services []service, commands []string) []spec {
	var images []spec
	// In the place of kube-apiserver, tripod starts its supervisor and the services without which an instance is none.
	binaries := slices.Clone(commands)
	for _, s := range services {
		program := "tripod-" + s.Name
		images = append(images, spec{
			name: program, title: "Tripod " + s.Name, description: "Tripod's service " + s.Name + " " + s.Does,
			binaries: []string{program}, user: nonroot,
		})
		if !s.Optional {
			binaries = append(binaries, program)
		}
	}
	return append(images, spec{
		name: "tripod", title: "Tripod",
		description: "The command line of Tripod, and all of it in the place of kube-apiserver",
		binaries:    binaries,
		// For static pods, whose command is `kube-apiserver`. They name no user, and read keys on the node that only root
		// can read. So this image has no user, like kube-apiserver's.
		links: []string{"kube-apiserver"},
	})
}

// dropInOf returns the image tripod under the name of kube-apiserver's image. Tools that host control
// planes find the image of a cluster by the version of Kubernetes, which is the tag.
func dropInOf(tripod spec, tag string) spec {
	tripod.name, tripod.title, tripod.tag = "kube-apiserver", "Tripod in the place of kube-apiserver", tag
	return tripod
}

// build is what all images have in common.
type build struct {
	repository string
	version    string
	revision   string
	created    time.Time
}

// reference returns the full name of the image, with its tag.
func (b build) reference(s spec) reference {
	if s.tag != "" {
		return newReference(b.repository+"/"+s.name, tag(s.tag))
	}
	return newReference(b.repository+"/"+s.name, tag(b.version))
}

// image makes the image from the binaries in a directory. It reuses the layers that exist.
func (b build) image(s spec, directory string, layers layers) (v1.Image, error) {
	base, err := layers.get("base", func() (tarball, error) { return baseFiles(b.created) })
	if err != nil {
		return nil, err
	}
	stack := []v1.Layer{base}
	files, linked, err := s.files(directory)
	if err != nil {
		return nil, err
	}
	var platform v1.Platform
	for _, name := range files {
		path := filepath.Join(directory, name)
		if platform, err = binaryPlatform(path); err != nil {
			return nil, err
		}
		layer, err := layers.get(path, func() (tarball, error) { return binaryFile(path, binaryDir+name, b.created) })
		if err != nil {
			return nil, err
		}
		stack = append(stack, layer)
	}
	if len(linked) > 0 {
		layer, err := layers.get("links of "+s.name, func() (tarball, error) { return links(linked, b.created) })
		if err != nil {
			return nil, err
		}
		stack = append(stack, layer)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.ConfigFile(image, b.config(s, platform)); err != nil {
		return nil, err
	}
	for _, layer := range stack {
		history := v1.History{Created: v1.Time{Time: b.created}, CreatedBy: "make images"}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history}); err != nil {
			return nil, err
		}
	}
	return image, nil
}

// files returns the binaries that are files, each once, and what each link refers to.
func (s spec) files(directory string) (files []string, linked map[string]string, err error) {
	linked = map[string]string{}
	for _, name := range s.links {
		linked[name] = s.binaries[0]
	}
	for _, name := range s.binaries {
		info, err := os.Lstat(filepath.Join(directory, name))
		if err != nil {
			return nil, nil, err
		}
		if info.Mode().Type() == os.ModeSymlink {
			if linked[name], err = os.Readlink(filepath.Join(directory, name)); err != nil {
				return nil, nil, err
			}
			if filepath.Base(linked[name]) != linked[name] {
				return nil, nil, fmt.Errorf("%s is a link to %s, which is not beside it", filepath.Join(directory, name), linked[name])
			}
			name = linked[name]
		}
		if !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	return files, linked, nil
}

func (b build) config(s spec, platform v1.Platform) *v1.ConfigFile {
	return &v1.ConfigFile{
		Architecture: platform.Architecture,
		OS:           platform.OS,
		Created:      v1.Time{Time: b.created},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       s.user,
			Entrypoint: []string{binaryDir + s.binaries[0]},
			// The only directory that every user may write to, if the root of the container is writable at all.
			Env:        []string{"PATH=" + filepath.Clean(binaryDir), "HOME=/tmp"},
			WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":       s.title,
				"org.opencontainers.image.description": s.description,
				"org.opencontainers.image.version":     b.version,
				"org.opencontainers.image.revision":    b.revision,
				"org.opencontainers.image.created":     b.created.Format(time.RFC3339),
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.source":      "https://github.com/tripod-k8s/tripod",
			},
		},
	}
}
