// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

var semantic = regexp.MustCompile(`^v?\d+\.\d+\.\d+`)

// chartVersion returns version as a chart can have it. Helm wants a semantic version, which a commit without a tag is not.
func chartVersion(version string) string {
	if semantic.MatchString(version) {
		return strings.TrimPrefix(version, "v")
	}
	return "0.0.0-g" + version
}

// writeChart packs the chart so that it installs the images of this release.
func (r release) writeChart() error {
	tag, err := os.ReadFile(filepath.Join(r.images, "tag"))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	version := chartVersion(r.version)
	cmd := exec.Command(r.helm, "package", r.chart,
		"--version="+version, "--app-version="+strings.TrimSpace(string(tag)), "--destination="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot pack the chart: %w\n%s", err, out)
	}
	name := "tripod-" + version + ".tgz"
	return restamp(filepath.Join(dir, name), filepath.Join(r.output, name), r.created)
}

// restamp copies a compressed archive, and gives its files one time: helm gives them the time of packing.
func restamp(from, to string, modified time.Time) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // only read
	uncompressed, err := gzip.NewReader(source)
	if err != nil {
		return err
	}
	return writeFile(to, func(w io.Writer) error {
		compressed := gzip.NewWriter(w)
		compressed.Header = uncompressed.Header
		compressed.ModTime = time.Time{}
		archive := tar.NewWriter(compressed)
		for reader := tar.NewReader(uncompressed); ; {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				return errors.Join(archive.Close(), compressed.Close())
			}
			if err != nil {
				return err
			}
			header.ModTime = modified
			if err := archive.WriteHeader(header); err != nil {
				return err
			}
			if _, err := io.Copy(archive, reader); err != nil {
				return err
			}
		}
	})
}
