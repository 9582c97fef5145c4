// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release packs what `make release` has built into the files of a release: an archive of the binaries, a package of Debian and
// a list of their modules (SBOM) for each platform, the container images and their digests, the chart, a script and a formula that
// install the binaries, and checksums of all. The same input gives the same bytes, on any machine.
//
// It is a program of our own because goreleaser and syft would bring 1,788 and 1,629 packages. This one links 399, with nfpm and
// cyclonedx-go, and has 1,100 lines with its tests. The images, the chart, the script and the formula would stay ours (docs/design/0031).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	var r release
	var platforms, documents, services, commands string
	var created int64
	flag.StringVar(&r.version, "version", "dev", "version of Tripod")
	flag.Int64Var(&created, "created", 0, "time of the commit in seconds since 1970, the time of everything in the release")
	flag.StringVar(&r.binaries, "binaries", "", "directory that has the binaries for each platform in a directory of its own")
	flag.StringVar(&platforms, "platforms", "linux-amd64 linux-arm64", "names of these directories, space separated")
	flag.StringVar(&services, "services", "", "names of the services, space separated")
	flag.StringVar(&commands, "commands", "", "the command line and what it starts besides services, which have one image, space separated")
	flag.StringVar(&r.images, "images", "", "directory of the images")
	flag.StringVar(&r.chart, "chart", "", "directory of the chart")
	flag.StringVar(&r.helm, "helm", "helm", "helm, which packs the chart")
	flag.StringVar(&documents, "documents", "", "files that accompany the binaries, space separated")
	flag.StringVar(&r.output, "output", "dist", "directory to write the release to")
	flag.Parse()
	r.created = time.Unix(created, 0).UTC()
	r.platforms, r.documents = strings.Fields(platforms), strings.Fields(documents)
	if r.services, r.commands = strings.Fields(services), strings.Fields(commands); len(r.services) == 0 || len(r.commands) == 0 {
		return errors.New("-services and -commands are required")
	}
	return r.write()
}

// packed returns the programs that have an image of their own.
func (r release) packed() []string {
	programs := r.commands[:1:1]
	for _, service := range r.services {
		programs = append(programs, "tripod-"+service)
	}
	return programs
}

// programs returns the binaries of a release. Links come after what they refer to.
func (r release) programs() []string {
	return slices.Concat(r.commands, r.packed()[1:], []string{"tripod-controllers"})
}

// release is what a release is made from.
type release struct {
	version string
	created time.Time

	services  []string
	commands  []string
	binaries  string
	platforms []string
	images    string
	chart     string
	helm      string
	documents []string

	output string
}

func (r release) write() error {
	if err := os.MkdirAll(r.output, 0o755); err != nil {
		return err
	}
	for _, platform := range r.platforms {
		if err := errors.Join(r.writeArchive(platform), r.writeSBOM(platform), r.writeDeb(platform)); err != nil {
			return err
		}
	}
	if err := errors.Join(r.copyImages(), r.writeDigests(), r.writeChart(), r.writeInstallers()); err != nil {
		return err
	}
	return writeChecksums(r.output)
}

func (r release) binary(platform, program string) string {
	return filepath.Join(r.binaries, platform, program)
}

// base begins the names of the files for platform.
func (r release) base(platform string) string {
	return "tripod-" + r.version + "-" + platform
}

func (r release) copyImages() error {
	for _, program := range r.packed() {
		from := filepath.Join(r.images, program+".tar")
		to := filepath.Join(r.output, program+"-"+r.version+".oci.tar")
		if err := copyFile(from, to); err != nil {
			return fmt.Errorf("cannot copy image %s: %w", program, err)
		}
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // only read
	return writeFile(to, func(w io.Writer) error {
		_, err := io.Copy(w, source)
		return err
	})
}

// writeFile creates a file with what write writes.
func writeFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return write(file)
}
