// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// signer is the folder of the program that signs and verifies releases. It counts as shipped, because a release is as safe as this program.
const signer = "tools/sign"

// shipped are the folders of the modules that ship, and the packages that are linked into programs, or that others may import.
var shipped = map[string][]string{
	".": {"./cmd/...", "./services/..."}, "base": {"./..."}, "proto": {"./..."}, "apiservice": {"./..."}, signer: {"./..."},
}

// own begins the names of modules of this repository.
const own = "github.com/tripod-k8s/tripod"

// module is a module with the packages of it that are linked.
type module struct {
	version  string
	packages map[string]bool
}

// modules are the linked modules by path. If the shipped modules link several versions, it is the oldest.
type modules map[string]module

func linkedModules() (modules, error) {
	linked := modules{}
	for folder, packages := range shipped {
		format := "{{with .Module}}{{if not .Main}}{{$.ImportPath}} {{.Path}} " +
			"{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}{{end}}"
		text, err := inModule(folder, append([]string{"list", "-deps", "-f", format}, packages...)...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			if len(fields) != 3 || strings.HasPrefix(fields[1], own) {
				continue
			}
			linked.add(fields[0], fields[1], fields[2])
		}
	}
	if len(linked) == 0 {
		return nil, errors.New("Tripod links no modules, which cannot be")
	}
	return linked, nil
}

func (m modules) add(name, path, version string) {
	one, ok := m[path]
	if !ok {
		one = module{version, map[string]bool{}}
	}
	one.version = oldest(one.version, version)
	one.packages[name] = true
	m[path] = one
}

// requiredModules returns the modules that the shipped modules require, also those of which nothing is linked now. Of the signer, whose
// libraries require much more than they use, only modules that it links count.
func requiredModules() ([]string, error) {
	required := map[string]bool{}
	for folder := range shipped {
		arguments := []string{"list", "-m", "-f", "{{.Path}}", "all"}
		if folder == signer {
			arguments = []string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./..."}
		}
		text, err := inModule(folder, arguments...)
		if err != nil {
			return nil, err
		}
		for path := range strings.FieldsSeq(text) {
			if !strings.HasPrefix(path, own) {
				required[path] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(required)), nil
}

// inModule runs go in the folder of a module, which finds the other modules of this repository.
func inModule(folder string, args ...string) (string, error) {
	switch folder {
	case ".":
		text, err := output("go", args...)
		return string(text), err
	case signer: // tools are no part of the workspace
		text, err := output("env", append([]string{"GOWORK=off", "go"}, append([]string{args[0], "-C", folder}, args[1:]...)...)...)
		return string(text), err
	}
	text, err := output("hack/alone.sh", append([]string{folder, "go"}, args...)...)
	return string(text), err
}

func output(name string, args ...string) ([]byte, error) {
	command := exec.Command(name, args...)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(command.Args, " "), err)
	}
	return text, nil
}
