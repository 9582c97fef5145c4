// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/tripod-k8s/tripod/tools/sign/signing"
)

const (
	// defaultBuilder stands for any machine that runs make.
	defaultBuilder = "https://github.com/tripod-k8s/tripod/blob/main/make/release.mk"
	// buildType is the page that says how a release is built, and how to do that again.
	buildType = "https://github.com/tripod-k8s/tripod/blob/main/docs/release.md#build-it-yourself"
)

// provenance says what was built from what, as SLSA defines it. The signer vouches for it.
func (r reader) provenance(from source) (json.RawMessage, error) {
	type object = map[string]any
	checksums, err := os.ReadFile(filepath.Join(r.directory, signing.ChecksumsFile))
	if err != nil {
		return nil, err
	}
	return json.Marshal(object{
		"buildDefinition": object{
			"buildType":          buildType,
			"externalParameters": object{"repository": from.repository, "version": from.version, "target": "make release"},
			"internalParameters": object{},
			"resolvedDependencies": []object{
				{"uri": "git+" + from.repository, "digest": object{"gitCommit": from.revision}},
			},
		},
		"runDetails": object{
			"builder":    object{"id": r.builder},
			"byproducts": []object{{"name": signing.ChecksumsFile, "digest": object{"sha256": fmt.Sprintf("%x", sha256.Sum256(checksums))}}},
		},
	})
}

// componentsOf returns the part of a list of components that is about some programs.
func componentsOf(list []byte, program, version string, programs []string) (json.RawMessage, error) {
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(list), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return nil, err
	}
	if bom.Components == nil || bom.Dependencies == nil || bom.Metadata == nil {
		return nil, errors.New("it lists no components")
	}
	needed := map[string]bool{}
	for _, name := range programs {
		needed[name] = true
	}
	dependencies := []cdx.Dependency{{Ref: program + "-image", Dependencies: &programs}}
	for _, dependency := range *bom.Dependencies {
		if !slices.Contains(programs, dependency.Ref) {
			continue
		}
		dependencies = append(dependencies, dependency)
		if dependency.Dependencies != nil {
			for _, on := range *dependency.Dependencies {
				needed[on] = true
			}
		}
	}
	if len(dependencies) != len(programs)+1 {
		return nil, fmt.Errorf("it does not list all of %s", strings.Join(programs, ", "))
	}
	components := slices.DeleteFunc(slices.Clone(*bom.Components), func(c cdx.Component) bool { return !needed[c.BOMRef] })
	bom.Components, bom.Dependencies = &components, &dependencies
	bom.Metadata.Component = &cdx.Component{
		BOMRef: program + "-image", Type: cdx.ComponentTypeContainer, Name: program, Version: version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	return json.Marshal(bom)
}

// shortKinds are the names that cosign has for kinds.
var shortKinds = map[string]string{signing.Signature: "signature", signing.Provenance: "slsaprovenance1", signing.SBOM: "cyclonedx"}

// writeClaims writes what is to be signed for cosign: a line in claims.txt for each claim, with cosign's name of the kind, a reference
// by digest and the file of the predicate.
func (p publication) writeClaims(directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	var lines strings.Builder
	count := 0
	for _, item := range p.items {
		for _, claim := range item.claims {
			count++
			file := fmt.Sprintf("%d.json", count)
			if err := os.WriteFile(filepath.Join(directory, file), claim.predicate, 0o644); err != nil {
				return err
			}
			fmt.Fprintf(&lines, "%s %s %s\n", shortKinds[claim.kind], item.repository.Digest(claim.about.String()), file)
		}
	}
	return os.WriteFile(filepath.Join(directory, "claims.txt"), []byte(lines.String()), 0o644)
}
