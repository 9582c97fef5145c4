// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// digestsFile is the name of the values by which the chart installs exactly the images of this release, whatever their tags have become.
func (r release) digestsFile() string { return "tripod-" + r.version + "-digests.yaml" }

// writeDigests writes the digests of all images as values of the chart.
func (r release) writeDigests() error {
	var values strings.Builder
	values.WriteString("image:\n  digests:\n")
	for _, program := range r.packed() {
		digest, err := digestOf(filepath.Join(r.images, program+".tar"))
		if err != nil {
			return fmt.Errorf("cannot find the digest of the image %s: %w", program, err)
		}
		fmt.Fprintf(&values, "    %s: %s\n", program, digest)
	}
	return writeFile(filepath.Join(r.output, r.digestsFile()), func(w io.Writer) error {
		_, err := io.WriteString(w, values.String())
		return err
	})
}

// digestOf returns the digest of the image in an OCI archive, for all its platforms.
func digestOf(archive string) (string, error) {
	file, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	content := tar.NewReader(file)
	for {
		header, err := content.Next()
		if err != nil {
			return "", fmt.Errorf("%s has no index.json: %w", archive, err)
		}
		if header.Name != "index.json" {
			continue
		}
		var index struct {
			Manifests []struct{ Digest string }
		}
		if err := json.NewDecoder(content).Decode(&index); err != nil {
			return "", err
		}
		if len(index.Manifests) != 1 || !strings.HasPrefix(index.Manifests[0].Digest, "sha256:") {
			return "", fmt.Errorf("%s has %d images, want one with a SHA-256", archive, len(index.Manifests))
		}
		return index.Manifests[0].Digest, nil
	}
}
