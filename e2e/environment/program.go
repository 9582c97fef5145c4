// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tripod-k8s/tripod/e2e/imagearchive"
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/e2e/release"
)

// registry is that of the images of stock programs that the tests pack.
const registry = "docker.io"

// packers has the programs whose images have them in the root directory. In other images, root runs the program, and finds it in $PATH.
var packers = map[string]func(archive, name, program string) error{"proxy-server": imagearchive.Write, "proxy-agent": imagearchive.Write}

// Program packs a stock program of bin/test-assets into an image, because not every machine can pull its image, loads it into a cluster, and
// returns the values of the image.
func (e *Environment) Program(into *kindcluster.Cluster, program string) (release.Values, error) {
	path := filepath.Join(e.root, "bin", "test-assets", program)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("make e2e builds it: %w", err)
	}
	pack, ok := packers[program]
	if !ok {
		pack = imagearchive.WriteComponent
	}
	repository := "tripod-e2e/" + program
	archive := filepath.Join(e.Dir, program+".tar")
	if err := pack(archive, registry+"/"+repository+":"+e.tag, path); err != nil {
		return nil, err
	}
	if _, err := into.Load(archive); err != nil {
		return nil, err
	}
	return release.Values{"registry": registry, "repository": repository, "tag": e.tag}, nil
}
