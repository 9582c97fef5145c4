// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command images packs the binaries of Tripod into container images, one archive per image. It needs no base image, registry or
// container engine. The same binaries, version and commit give the same bytes. Binaries for several platforms give
// images for several platforms.
//
// An archive is an OCI image layout with the manifest.json of `docker save` beside it, so that containerd, kind, skopeo,
// podman and Docker all load it, and under the same name.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "images: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	var created int64
	var b build
	list := flag.String("services", "", "file with the list of services, deploy/helm/tripod/services.json")
	commands := flag.String("commands", "", "binaries of the image tripod besides services, separated by spaces; the first is its entrypoint")
	output := flag.String("output", "", "directory to write NAME.tar and the file tag to")
	version := flag.String("version", "dev", "version of Tripod, which becomes the tag")
	dropIn := flag.String("drop-in", "",
		"pack only the image kube-apiserver, with this tag, for tools that name images by the version of Kubernetes")
	binaries := flag.String("binaries", "bin", "directories with the binaries, space separated, one for each platform")
	flag.StringVar(&b.repository, "repository", "tripod-k8s", "prefix of image names, with or without a registry")
	flag.StringVar(&b.revision, "revision", "", "commit that the binaries were built from")
	flag.Int64Var(&created, "created", 0, "time of that commit in seconds since 1970, which all files in the images get")
	flag.Parse()
	b.version, b.created = *version, time.Unix(created, 0).UTC()

	services, err := readServices(*list)
	if err != nil {
		return err
	}
	if *commands == "" {
		return errors.New("-commands is required")
	}
	if err := os.MkdirAll(*output, 0o755); err != nil {
		return err
	}
	layers := layers{}
	specs := imagesOf(services, strings.Fields(*commands))
	if *dropIn != "" {
		specs = []spec{dropInOf(specs[len(specs)-1], *dropIn)}
	}
	for _, spec := range specs {
		var platforms []v1.Image
		for directory := range strings.FieldsSeq(*binaries) {
			image, err := b.image(spec, directory, layers)
			if err != nil {
				return fmt.Errorf("image %s: %w", spec.name, err)
			}
			platforms = append(platforms, image)
		}
		path := filepath.Join(*output, spec.name+".tar")
		digest, size, err := writeArchive(path, b.reference(spec), platforms)
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", path, err)
		}
		fmt.Printf("%s  %s@%s  %d MiB\n", path, b.reference(spec), digest, size>>20)
	}
	if *dropIn != "" {
		return nil
	}
	return os.WriteFile(filepath.Join(*output, "tag"), []byte(tag(b.version)+"\n"), 0o644)
}

// tag returns version in a form that is allowed in the name of an image.
func tag(version string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, version)
}
