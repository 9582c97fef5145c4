// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

// project is where the project has its code and its releases.
const project = "https://github.com/tripod-k8s/tripod"

//go:embed templates
var templates embed.FS

// ofOlder is the end of a version with an older Kubernetes.
var ofOlder = regexp.MustCompile(`-kube[0-9.]+$`)

// installer is what the templates need.
type installer struct {
	// Version is v0.1.0, or v0.1.0-kube1.36, and Number is the same as a semantic version.
	Version, Number string
	// Download is the URL of the files of the release, and Identity that of the workflow that signs it.
	Download, Identity string
	// Class is the name of the formula for Ruby.
	Class     string
	Programs  []string
	Platforms []platform
}

// platform is linux-amd64 with its names elsewhere: of uname and of Homebrew.
type platform struct {
	Name, Architecture, Machine, Family string
	// Sum is the SHA-256 of its archive.
	Sum string
}

var (
	machines = map[string]string{"amd64": "x86_64 | amd64", "arm64": "aarch64 | arm64"}
	families = map[string]string{"amd64": "intel", "arm64": "arm"}
)

// writeInstallers writes the script that installs the programs, and the formula for Homebrew. Both have the checksums of the archives.
func (r release) writeInstallers() error {
	older := ofOlder.FindString(r.version)
	tag := strings.TrimSuffix(r.version, older)
	values := installer{
		Version: r.version, Number: chartVersion(r.version), Programs: r.programs(),
		Download: project + "/releases/download/" + tag, Identity: project + "/.github/workflows/release.yaml@refs/tags/" + tag,
		Class: "Tripod" + strings.NewReplacer("-kube", "Kube", ".", "").Replace(older),
	}
	for _, name := range r.platforms {
		sum, err := checksum(filepath.Join(r.output, r.base(name)+".tar.gz"))
		if err != nil {
			return err
		}
		_, architecture, _ := strings.Cut(name, "-")
		if machines[architecture] == "" {
			return fmt.Errorf("no installer knows the platform %s", name)
		}
		values.Platforms = append(values.Platforms, platform{name, architecture, machines[architecture], families[architecture], sum})
	}
	for file, from := range map[string]string{"install" + older + ".sh": "install.sh", "tripod" + older + ".rb": "formula.rb"} {
		parsed, err := template.ParseFS(templates, "templates/"+from)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(r.output, file), func(w io.Writer) error { return parsed.Execute(w, values) }); err != nil {
			return err
		}
	}
	return nil
}
