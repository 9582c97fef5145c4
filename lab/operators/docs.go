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
var pageText string

// page is what the page shows.
type page struct {
	*table
	// Divided compares stock with Tripod in parts. It is nil if that has not run.
	Divided *table
}

// writeDocs writes the page.
func writeDocs(path string, shown page) (err error) {
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"minutes": func(d time.Duration) string { return d.Round(time.Second).String() },
		"seconds": func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) },
		"cell":    func(text string) string { return strings.ReplaceAll(text, "|", `\|`) },
		"list":    func(texts []string) string { return strings.Join(texts, ", ") },
	}).Parse(pageText)
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
	return parsed.Execute(file, shown)
}
