// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// list is what Tripod relies on.
type list struct {
	// Versions are the versions of modules at the last comparison.
	Versions map[string]string `yaml:"versions"`
	Insides  []inside          `yaml:"insides"`

	content []byte
}

// inside is one thing that Tripod relies on.
type inside struct {
	// Ours are the files that rely on it.
	Ours []string `yaml:"ours"`
	// ReliesOn says what they rely on.
	ReliesOn string `yaml:"reliesOn"`
	// Tests fail if Tripod can no longer rely on it: FOLDER.TEST. The list may be empty.
	Tests []string `yaml:"tests"`
	// Upstream are the declarations that make it so.
	Upstream declarations `yaml:"upstream"`
}

// declaration is a declaration of another module.
type declaration struct {
	// file is the path of a Go file, beginning with the path of its module.
	file, name string
	// digest is the digest of the declaration at the last comparison, or empty if there was none.
	digest string
	// line is its line in the list, from 1.
	line int
}

// declarations are a map by file and name in YAML.
type declarations []declaration

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *declarations) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: upstream is a map by file", node.Line)
	}
	for i := 0; i < len(node.Content); i += 2 {
		file, names := node.Content[i], node.Content[i+1]
		if names.Kind != yaml.MappingNode {
			return fmt.Errorf("line %d: %s is a map from declarations to digests", file.Line, file.Value)
		}
		for j := 0; j < len(names.Content); j += 2 {
			key := names.Content[j]
			*d = append(*d, declaration{file: file.Value, name: key.Value, digest: names.Content[j+1].Value, line: key.Line})
		}
	}
	return nil
}

func readList(path string) (*list, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	result := &list{content: content}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(result); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range result.Insides {
		if in := &result.Insides[i]; len(in.Ours) == 0 || in.ReliesOn == "" || len(in.Upstream) == 0 {
			return nil, fmt.Errorf("%s: entry %d needs ours, reliesOn and upstream", path, i+1)
		}
	}
	return result, nil
}

// files returns all files of other modules that are named, sorted.
func (l *list) files() []string {
	named := map[string]bool{}
	for _, in := range l.Insides {
		for _, d := range in.Upstream {
			named[d.file] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}

const versionsKey = "versions:"

// digestLine is the name of a declaration, followed by its digest.
var digestLine = regexp.MustCompile(`^( *[^:]+:) *\S*`)

// record returns the list with new versions, and with new digests by line. Everything else stays as it is.
func (l *list) record(versions map[string]string, digests map[int]string) []byte {
	var out bytes.Buffer
	within, number := false, 0
	for line := range strings.Lines(string(l.content)) {
		number++
		within = within && strings.HasPrefix(line, " ")
		if within {
			continue
		}
		if recorded, ok := digests[number]; ok {
			line = digestLine.ReplaceAllString(line, "${1} "+recorded)
		}
		out.WriteString(line)
		if strings.TrimSpace(line) == versionsKey {
			within = true
			for _, module := range slices.Sorted(maps.Keys(versions)) {
				fmt.Fprintf(&out, "  %s: %s\n", module, versions[module])
			}
		}
	}
	return out.Bytes()
}
