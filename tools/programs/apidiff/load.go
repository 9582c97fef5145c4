// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/mod/modfile"
	"golang.org/x/tools/go/packages"
)

// unpack writes the last release into a temporary folder.
func (c comparison) unpack() (folder, release string, err error) {
	text, err := os.ReadFile(filepath.Join(c.repository, c.reference))
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			release = line
		}
	}
	if release == "" {
		return "", "", fmt.Errorf("%s names no release", c.reference)
	}
	if folder, err = os.MkdirTemp("", "apidiff-"); err != nil {
		return "", "", err
	}
	archive := filepath.Join(folder, "release.tar")
	if output, err := exec.Command("git", "-C", c.repository, "archive", "--output="+archive, release).CombinedOutput(); err != nil {
		return "", "", errors.Join(fmt.Errorf("git archive %s: %s (without the history of the repository: git fetch --tags --unshallow)",
			release, oneLine(string(output))), os.RemoveAll(folder))
	}
	if output, err := exec.Command("tar", "-xf", archive, "-C", folder).CombinedOutput(); err != nil {
		return "", "", errors.Join(fmt.Errorf("unpack %s: %w: %s", release, err, output), os.RemoveAll(folder))
	}
	return folder, release, nil
}

// load returns the packages of the module that users can import, with the versions that the go.mod files in a folder require.
func (c comparison) load(folder string) (*apidiff.Module, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	path, workspace, err := c.workspace(folder)
	if err != nil {
		return nil, err
	}
	defer remove(filepath.Dir(workspace))
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes,
		Dir: filepath.Join(folder, c.module),
		Env: append(os.Environ(), "GOWORK="+workspace, "GOPACKAGESDRIVER=off"),
		ParseFile: func(set *token.FileSet, name string, text []byte) (*ast.File, error) {
			file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
			if file != nil {
				withoutBodies(file)
			}
			return file, err
		},
	}, "./...")
	if err != nil {
		return nil, err
	}
	module := &apidiff.Module{Path: path}
	for _, p := range all {
		if p.Name == "main" || slices.Contains(strings.Split(strings.TrimPrefix(p.PkgPath, path), "/"), "internal") {
			continue
		}
		for _, problem := range p.Errors {
			if !withoutBody.MatchString(problem.Msg) {
				return nil, problem
			}
		}
		module.Packages = append(module.Packages, p.Types)
	}
	if len(module.Packages) == 0 {
		return nil, errors.New("it has no packages")
	}
	return module, nil
}

// workspace writes a go.work of the module and of those beside it that it requires, at versions that are in no registry.
func (c comparison) workspace(folder string) (path, file string, err error) {
	published, err := readModule(folder, c.module)
	if err != nil {
		return "", "", err
	}
	path = published.Module.Mod.Path
	files := []*modfile.File{published}
	beside := strings.TrimSuffix(path, c.module)
	paths := map[string]string{path: filepath.Join(folder, c.module)} // of modules, their folders
	for _, required := range published.Require {
		name, ours := strings.CutPrefix(required.Mod.Path, beside)
		if !ours {
			continue
		}
		module, err := readModule(folder, name)
		if err != nil {
			return "", "", err
		}
		files, paths[required.Mod.Path] = append(files, module), filepath.Join(folder, name)
	}
	var work strings.Builder
	fmt.Fprintf(&work, "go %s\n", published.Go.Version)
	replaced := map[string]bool{}
	for _, module := range files {
		fmt.Fprintf(&work, "use %q\n", paths[module.Module.Mod.Path])
		for _, required := range module.Require {
			if at, ours := paths[required.Mod.Path]; ours && !replaced[required.Mod.String()] {
				replaced[required.Mod.String()] = true
				fmt.Fprintf(&work, "replace %s %s => %q\n", required.Mod.Path, required.Mod.Version, at)
			}
		}
	}
	temporary, err := os.MkdirTemp("", "apidiff-work-")
	if err != nil {
		return "", "", err
	}
	file = filepath.Join(temporary, "go.work")
	return path, file, os.WriteFile(file, []byte(work.String()), 0o600)
}

// readModule reads the go.mod file of a module in a folder.
func readModule(folder, module string) (*modfile.File, error) {
	name := filepath.Join(folder, module, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, text, nil)
}

// withoutBody are the errors in a file because withoutBodies has changed it.
var withoutBody = regexp.MustCompile(`imported and not used|imported as .* and not used|missing function body|must have a body`)

// withoutBodies removes what functions do, which is no part of an API.
func withoutBodies(file *ast.File) {
	for _, declared := range file.Decls {
		if function, ok := declared.(*ast.FuncDecl); ok {
			function.Body = nil
		}
	}
}
