// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
	"text/template"
	"time"
)

//go:embed operators.md.tmpl
var page string

// writeDocs writes the page with a table.
func writeDocs(path string, t *table) (err error) {
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"minutes": func(d time.Duration) string { return d.Round(time.Second).String() },
		"seconds": func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) },
		"cell":    func(text string) string { return strings.ReplaceAll(text, "|", `\|`) },
		"list":    func(texts []string) string { return strings.Join(texts, ", ") },
	}).Parse(page)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	return parsed.Execute(file, t)
}
