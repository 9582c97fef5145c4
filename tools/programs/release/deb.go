// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// writeDeb writes the package of Debian with the binaries for platform. A version of an older Kubernetes is a preliminary one, as it is
// for helm: apt moves on to the newer Kubernetes.
func (r release) writeDeb(platform string) error {
	_, architecture, _ := strings.Cut(platform, "-")
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "tripod", Arch: architecture, Platform: "linux", Version: chartVersion(r.version),
		Section: "admin", Priority: "optional", Maintainer: "The Tripod Authors <" + project + ">",
		Homepage: project, License: "Apache-2.0", MTime: r.created, DisableGlobbing: true,
		Description: "Kubernetes API server as three services\n`tripod up` runs them, with an etcd, on this machine.",
		// Debian has read zstd since 12, and Ubuntu since 18.04. It is smaller and faster than gzip.
		Overridables: nfpm.Overridables{Deb: nfpm.Deb{Compression: "zstd"}},
	})
	add := func(from, to string, mode os.FileMode) {
		info.Contents = append(info.Contents, &files.Content{
			Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.created},
		})
	}
	for _, program := range r.programs() {
		target, err := linkTarget(r.binary(platform, program))
		if err != nil {
			return err
		}
		if target == "" {
			add(r.binary(platform, program), "/usr/bin/"+program, 0o755)
			continue
		}
		info.Contents = append(info.Contents, &files.Content{
			Type: files.TypeSymlink, Source: target, Destination: "/usr/bin/" + program, FileInfo: &files.ContentFileInfo{MTime: r.created},
		})
	}
	for _, document := range r.documents {
		name := filepath.Base(document)
		if name == "LICENSE" {
			name = "copyright" // where Debian looks for it
		}
		add(document, "/usr/share/doc/tripod/"+name, 0o644)
	}
	return writeFile(filepath.Join(r.output, r.base(platform)+".deb"), func(w io.Writer) error { return deb.Default.Package(info, w) })
}
