// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM lists the modules that the binaries for platform are linked from. The binaries themselves say which.
func (r release) writeSBOM(platform string) error {
	bom, err := r.sbom(platform)
	if err != nil {
		return fmt.Errorf("cannot list the modules for %s: %w", platform, err)
	}
	return writeFile(filepath.Join(r.output, r.base(platform)+".cdx.json"), func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

func (r release) sbom(platform string) (*cdx.BOM, error) {
	components, programs := map[string]cdx.Component{}, r.programs()
	dependencies := []cdx.Dependency{{Ref: r.base(platform), Dependencies: &programs}}
	for _, program := range programs {
		path := r.binary(platform, program)
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, err
		}
		sum, err := checksum(path)
		if err != nil {
			return nil, err
		}
		components[program] = cdx.Component{
			BOMRef: program, Type: cdx.ComponentTypeApplication, Name: program, Version: r.version,
			Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		}
		var linked []string
		for _, component := range r.modules(info) {
			components[component.BOMRef] = component
			linked = append(linked, component.BOMRef)
		}
		slices.Sort(linked)
		dependencies = append(dependencies, cdx.Dependency{Ref: program, Dependencies: &linked})
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.created.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: r.base(platform), Type: cdx.ComponentTypeApplication, Name: "tripod", Version: r.version,
			Licenses:           &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
			ExternalReferences: &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: "https://github.com/tripod-k8s/tripod"}},
		},
	}
	all := slices.SortedFunc(maps.Values(components), func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components, bom.Dependencies = &all, &dependencies
	return bom, nil
}

// modules returns what a binary is linked from: the modules that it requires, and Go's standard library. Modules of the workspace
// (go.work) have no version in the binary. They are of this repository, so theirs is that of the release.
func (r release) modules(info *debug.BuildInfo) []cdx.Component {
	components := []cdx.Component{library("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		if module.Version == "(devel)" {
			module.Version = r.version
		}
		components = append(components, library(module.Path, module.Version))
	}
	return components
}

// library returns a module of Go. It is referred to by its package URL, in which a plus has to be escaped.
func library(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
}
