// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen-tables writes a table of what is in the code into a page of docs/: `gen-tables flags docs/flags.md` and `gen-tables rules
// docs/secure.md`. The table stands between two comments of the page.
package main

import (
	"fmt"
	"os"
	"strings"
)

// tables are the tables by their names.
var tables = map[string]func() string{"flags": flags, "rules": rules}

func main() {
	if len(os.Args) != 3 || tables[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: gen-tables flags|rules PAGE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gen-tables:", err)
		os.Exit(1)
	}
}

func run(name, path string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	updated, err := replace(string(page), name, tables[name]())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(updated), 0o644)
}

// replace returns the page with the table of that name replaced.
func replace(page, name, table string) (string, error) {
	begin := fmt.Sprintf("<!-- begin of the %s, written by make fix-generated -->\n", name)
	end := fmt.Sprintf("<!-- end of the %s -->\n", name)
	before, rest, hasBegin := strings.Cut(page, begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return "", fmt.Errorf("the page has no place for the table:\n%s%s", begin, end)
	}
	return before + begin + table + end + after, nil
}
