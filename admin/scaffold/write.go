// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed templates
var embedded embed.FS

// files returns the templates by the path in the module that each is for.
func (s *APIService) files() map[string]string {
	return map[string]string{
		".dockerignore": "dockerignore",
		".gitignore":    "gitignore",
		"Dockerfile":    "Dockerfile",
		"Makefile":      "Makefile",
		"README.md":     "README.md",
		"go.mod":        "go.mod",
		"main.go":       "main.go",
		"api_test.go":   "api_test.go",
		"main_test.go":  "main_test.go",
		"sample.yaml":   "sample.yaml",
		"scheme.go":     "scheme.go",
		"validation.go": "validation.go",

		"openapi/doc.go":                  "openapi-doc.go",
		"openapi/zz_generated.openapi.go": "zz_generated.openapi.go",

		path.Join(s.Version, "doc.go"):                     "doc.go",
		path.Join(s.Version, "types.go"):                   "types.go",
		path.Join(s.Version, "zz_generated.deepcopy.go"):   "zz_generated.deepcopy.go",
		path.Join(s.Version, "zz_generated.model_name.go"): "zz_generated.model_name.go",
	}
}

// Write writes the module into a folder, which does not exist or is empty; it may have a .git. If an error is returned, nothing was
// written.
func (s *APIService) Write(folder string) (err error) {
	folder, err = filepath.Abs(folder)
	if err != nil {
		return err
	}
	exists, err := isEmpty(folder)
	if err != nil {
		return err
	}
	// Beside the folder, so that the files can be moved there.
	beside, err := os.MkdirTemp(filepath.Dir(folder), "."+filepath.Base(folder)+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(beside)) }()
	draft := filepath.Join(beside, "module")
	if err := s.write(draft); err != nil {
		return err
	}
	if exists {
		return moveInto(folder, draft)
	}
	return os.Rename(draft, folder)
}

// isEmpty reports whether a folder exists. It returns an error if there is something in it.
func isEmpty(folder string) (bool, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		if entry.Name() != ".git" {
			return false, fmt.Errorf("the folder %s is not empty: choose another one with --directory", folder)
		}
	}
	return true, nil
}

// moveInto moves what is in a folder into another one, all of it or nothing.
func moveInto(folder, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for i, entry := range entries {
		if err := os.Rename(filepath.Join(from, entry.Name()), filepath.Join(folder, entry.Name())); err != nil {
			for _, moved := range entries[:i] {
				err = errors.Join(err, os.RemoveAll(filepath.Join(folder, moved.Name())))
			}
			return err
		}
	}
	return nil
}

func (s *APIService) write(folder string) error {
	for file, name := range s.files() {
		content, err := s.render(name)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		target := filepath.Join(folder, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil { //nolint:gosec // as the user's umask says
			return err
		}
		if err := os.WriteFile(target, content, 0o666); err != nil { //nolint:gosec // as the user's umask says
			return err
		}
	}
	return nil
}

func (s *APIService) render(name string) ([]byte, error) { return render(name, s) }

// render returns what a template makes of data.
func render(name string, data any) ([]byte, error) {
	text, err := embedded.ReadFile("templates/" + name + ".tmpl")
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(name).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, data); err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, ".go") {
		return format.Source(out.Bytes())
	}
	return out.Bytes(), nil
}
