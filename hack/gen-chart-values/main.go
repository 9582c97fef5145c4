// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen-chart-values writes the page about the values of the Helm chart from the comments in values.yaml. A comment that begins with
// "# --" describes the key below it.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

const intro = `# Values of the chart

This page lists all values of ` + "`deploy/helm/tripod`" + `. The chart rejects others. ` + "`make fix-generated`" + ` writes the page from the comments in ` + "`values.yaml`" + `.
[Install](install.md) says how to use them.
`

func main() {
	values := flag.String("values", "deploy/helm/tripod/values.yaml", "file to read")
	output := flag.String("output", "docs/values.md", "file to write")
	flag.Parse()
	if err := run(*values, *output); err != nil {
		fmt.Fprintln(os.Stderr, "gen-chart-values:", err)
		os.Exit(1)
	}
}

func run(values, output string) error {
	data, err := os.ReadFile(values)
	if err != nil {
		return err
	}
	page, err := page(data)
	if err != nil {
		return fmt.Errorf("%s: %w", values, err)
	}
	return os.WriteFile(output, []byte(page), 0o644)
}

// page returns the page: a table of the values at the top, and a section for each map.
func page(values []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return "", err
	}
	root := document.Content[0]
	var top []row
	var sections strings.Builder
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if !isSection(value) {
			top = append(top, rowOf("", key, value))
			continue
		}
		fmt.Fprintf(&sections, "\n## %s\n", key.Value)
		if text := description(key, ""); text != "" {
			fmt.Fprintf(&sections, "\n%s\n", text)
		}
		sections.WriteString("\n" + table(rows(key.Value+".", value)))
	}
	return intro + "\n" + table(top) + sections.String(), nil
}

type row struct{ key, value, text string }

// rows returns the values in a map and its nested maps.
func rows(prefix string, values *yaml.Node) []row {
	var all []row
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		if isSection(value) && description(key, "--") == "" {
			all = append(all, rows(prefix+key.Value+".", value)...)
			continue
		}
		all = append(all, rowOf(prefix, key, value))
	}
	return all
}

// isSection reports whether a value is a map of values, and not a single value in the form of a map.
func isSection(value *yaml.Node) bool {
	return value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0
}

func rowOf(prefix string, key, value *yaml.Node) row {
	return row{key: prefix + key.Value, value: literal(value), text: description(key, "--")}
}

// literal returns a value as the file has it, in one line.
func literal(value *yaml.Node) string {
	switch value.Kind {
	case yaml.MappingNode:
		var parts []string
		for i := 0; i < len(value.Content); i += 2 {
			parts = append(parts, value.Content[i].Value+": "+literal(value.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		var parts []string
		for _, item := range value.Content {
			parts = append(parts, literal(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if value.Style&yaml.DoubleQuotedStyle != 0 {
		return `"` + value.Value + `"`
	}
	return value.Value
}

// description returns the last paragraph of the comment above a key, if it begins with mark.
func description(key *yaml.Node, mark string) string {
	paragraphs := strings.Split(key.HeadComment, "\n\n")
	lines := strings.Split(paragraphs[len(paragraphs)-1], "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(lines[i], "#"))
	}
	text, marked := strings.CutPrefix(strings.Join(lines, " "), mark)
	if !marked || mark == "" && (strings.HasPrefix(text, "--") || strings.Contains(text, "SPDX-")) {
		return ""
	}
	return strings.TrimSpace(text)
}

func table(rows []row) string {
	var out strings.Builder
	out.WriteString("| value | default | |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| `%s` | `%s` | %s |\n", r.key, r.value, strings.ReplaceAll(r.text, "|", `\|`))
	}
	return out.String()
}
