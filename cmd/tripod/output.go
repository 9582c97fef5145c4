// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// listFormat is the format in which a command prints a list. The zero value is a table.
type listFormat struct {
	name string
	path *jsonpath.JSONPath
}

// Formats of lists besides those of status.go.
const (
	formatYAML     = "yaml"
	formatName     = "name"
	formatJSONPath = "jsonpath"
)

// addListFormat adds the flag for the format of a list.
func addListFormat(cmd *cobra.Command, f *listFormat) {
	f.name = formatTable
	cmd.Flags().VarP(f, "output", "o", "format of the output: table, json, yaml, name, or jsonpath=EXPRESSION as in jsonpath={[*].name}")
	formats := []string{formatTable, formatJSON, formatYAML, formatName, formatJSONPath + "="}
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

func (f *listFormat) String() string { return f.name }
func (f *listFormat) Type() string   { return "string" }

func (f *listFormat) Set(value string) error {
	name, expression, hasExpression := strings.Cut(value, "=")
	switch {
	case name == formatJSONPath && expression != "":
		if !strings.Contains(expression, "{") { // as kubectl allows
			expression = "{" + expression + "}"
		}
		f.path = jsonpath.New(formatJSONPath)
		if err := f.path.Parse(expression); err != nil {
			return err
		}
	case hasExpression || (name != formatTable && name != formatJSON && name != formatYAML && name != formatName):
		return errors.New("it is none of table, json, yaml, name, jsonpath=EXPRESSION")
	}
	f.name = name
	return nil
}

// printList prints items. nameOf returns the name of one, and table prints all for people.
func printList[T any](out io.Writer, f listFormat, items []T, nameOf func(T) string, table func(io.Writer, []T) error) error {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = nameOf(item)
	}
	if items == nil {
		items = []T{} // an empty list, not null
	}
	return printValue(out, f, items, names, table)
}

// printValue prints a value that lists things with these names.
func printValue[T any](out io.Writer, f listFormat, value T, names []string, table func(io.Writer, T) error) error {
	switch f.name {
	case formatJSON:
		return printJSON(out, value)
	case formatYAML:
		data, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	case formatName:
		for _, name := range names {
			if _, err := fmt.Fprintln(out, name); err != nil {
				return err
			}
		}
		return nil
	case formatJSONPath:
		return printPath(out, f.path, value)
	}
	return table(out, value)
}

// printPath prints what a path finds in the JSON form of a value.
func printPath(out io.Writer, path *jsonpath.JSONPath, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		return err
	}
	if err := path.Execute(out, decoded); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out)
	return err
}

// tableWriter aligns cells between tabs when it is flushed.
type tableWriter interface {
	io.Writer
	Flush() error
}

// newTable returns a table for people with columns as wide as kubectl's. Its Flush returns the first error of all writes.
func newTable(out io.Writer, columns ...string) tableWriter {
	table := printers.GetNewTabWriter(out)
	_, _ = fmt.Fprintln(table, strings.Join(columns, "\t"))
	return table
}

// row adds a row to a table. Flush returns its errors.
func row(table io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = fmt.Sprint(cell)
	}
	_, _ = fmt.Fprintln(table, strings.Join(texts, "\t"))
}
