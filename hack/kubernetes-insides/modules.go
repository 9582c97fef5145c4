// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is a module that Tripod is built from.
type module struct{ path, version, dir string }

// file returns the path of a file of the module.
func (m *module) file(path string) string {
	return filepath.Join(m.dir, strings.TrimPrefix(path, m.path))
}

// modulesOf returns the module of each file.
func modulesOf(files []string) (map[string]*module, error) {
	required, err := requirements()
	if err != nil {
		return nil, err
	}
	byPath := map[string]*module{}
	result := make(map[string]*module, len(files))
	for _, file := range files {
		path := moduleOf(file, required)
		if path == "" {
			return nil, fmt.Errorf("%s is of no module that go.mod requires", file)
		}
		if byPath[path] == nil {
			byPath[path] = &module{path: path}
		}
		result[file] = byPath[path]
	}
	paths := slices.Sorted(maps.Keys(byPath))
	// `go list` names no folder for a module that no build has downloaded yet.
	if _, err := run("go", slices.Concat([]string{"mod", "download"}, paths)...); err != nil {
		return nil, err
	}
	out, err := run("go", slices.Concat([]string{"list", "-m", "-f", "{{.Path}} {{or .Replace .}} {{.Dir}}"}, paths)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		// The second field is the path of the module in use, the third its version.
		fields := strings.Fields(line)
		if len(fields) != 4 {
			return nil, fmt.Errorf("go list names no folder of module %s", fields[0])
		}
		m := byPath[fields[0]]
		m.version, m.dir = fields[2], fields[3]
	}
	return result, nil
}

// moduleOf returns the path of the module of a file: the longest one that fits.
func moduleOf(file string, modules []string) string {
	found := ""
	for _, path := range modules {
		if strings.HasPrefix(file, path+"/") && len(path) > len(found) {
			found = path
		}
	}
	return found
}

// requirements returns the paths of all modules in go.mod.
func requirements() ([]string, error) {
	out, err := run("go", "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod struct{ Require []struct{ Path string } }
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, err
	}
	paths := make([]string, len(mod.Require))
	for i, required := range mod.Require {
		paths[i] = required.Path
	}
	return paths, nil
}

// at returns the module at another version, and downloads it if necessary.
func (m *module) at(version string) (*module, error) {
	if version == m.version {
		return m, nil
	}
	out, err := run("go", "mod", "download", "-json", m.path+"@"+version)
	if err != nil {
		return nil, err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, err
	}
	return &module{path: m.path, version: version, dir: downloaded.Dir}, nil
}

// run returns the output of a command.
func run(name string, args ...string) ([]byte, error) {
	command := exec.Command(name, args...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
