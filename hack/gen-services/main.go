// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen-services writes what follows from the list of services (services/list) and is not Go. `gen-services list FILE` writes the
// list for the chart, the Makefile and the images. `gen-services groups FILE` writes the API groups that no partition of extensions can
// have, for the chart. `gen-services lint FILE` writes the rules of the linter by which services do not import one another, between two
// comments of its configuration.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen-services list|groups|lint FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gen-services:", err)
		os.Exit(1)
	}
}

func run(what, path string) error {
	switch what {
	case "list":
		return os.WriteFile(path, services(), 0o644)
	case "groups":
		data, err := json.MarshalIndent(partitions.BuiltIn(), "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(data, '\n'), 0o644)
	case "lint":
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after, err := replace(string(before), rules())
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return os.WriteFile(path, []byte(after), 0o644)
	}
	return fmt.Errorf("%q is none of list, groups and lint", what)
}

// entry is a service in the list. The Makefile reads the names line by line.
type entry struct {
	Name     string `json:"name"`
	Does     string `json:"does"`
	Optional bool   `json:"optional"`
}

func services() []byte {
	var lines []string
	for _, s := range list.All() {
		line, err := json.Marshal(entry{s.Name, s.Does, s.Optional})
		if err != nil {
			panic(err) // strings and a boolean
		}
		lines = append(lines, "  "+string(line))
	}
	return []byte("[\n" + strings.Join(lines, ",\n") + "\n]\n")
}

const (
	begin = "        # Begin of the rules of services, written by make fix-generated.\n"
	end   = "        # End of the rules of services.\n"
	root  = "github.com/tripod-k8s/tripod/"
)

// rules returns a rule of depguard for each service, and one for the packages that services share.
func rules() string {
	var b strings.Builder
	names := slices.Sorted(slices.Values(list.Names()))
	for _, name := range names {
		fmt.Fprintf(&b, "        %s:\n", name)
		fmt.Fprintf(&b, "          files: [\"**/services/%s/**/*.go\", \"!$test\", \"!**/*test/*.go\"]\n          deny:\n", name)
		for _, other := range names {
			if other != name {
				fmt.Fprintf(&b, "            - {pkg: %sservices/%s, desc: services do not import one another}\n", root, other)
			}
		}
		for _, above := range []string{"admin", "local"} {
			fmt.Fprintf(&b, "            - {pkg: %s%s, desc: %[2]s is above services}\n", root, above)
		}
	}
	b.WriteString("        below-services:\n" +
		"          files: [\"**/services/list/**/*.go\", \"**/services/shared/**/*.go\", \"!$test\", \"!**/*test/*.go\"]\n          deny:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "            - {pkg: %sservices/%s, desc: %[2]s is above what services share}\n", root, name)
	}
	for _, above := range []string{"admin", "local"} {
		fmt.Fprintf(&b, "            - {pkg: %s%s, desc: %[2]s is above services}\n", root, above)
	}
	return b.String()
}

func replace(file, rules string) (string, error) {
	before, rest, hasBegin := strings.Cut(file, begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return "", errors.New("there is no place for the rules:\n" + begin + end)
	}
	return before + begin + rules + end + after, nil
}
