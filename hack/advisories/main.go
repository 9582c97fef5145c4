// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command advisories fails if Tripod links a module that a known advisory is about. It needs no network: advisories.json has the
// advisories of the modules that Tripod requires, in the OSV format of the Go vulnerability database.
//
//	go run ./hack/advisories            fails if a linked module is older than the version with the fix
//	go run ./hack/advisories -refresh   takes the advisories from the newest golang.org/x/vulndb
//
// exceptions.yaml lists advisories that may stay for a time, and why. Advisories of Go itself, and those without a fix, are left to
// govulncheck.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	folder = "hack/advisories"
	// database is the module with all advisories.
	database = "golang.org/x/vulndb"
)

func main() {
	refresh := flag.Bool("refresh", false, "take the advisories from the newest "+database)
	flag.Parse()
	do := check
	if *refresh {
		do = fetch
	}
	if err := do(filepath.Join(folder, "advisories.json")); err != nil {
		fmt.Fprintln(os.Stderr, "advisories:", err)
		os.Exit(1)
	}
}

// list is the content of advisories.json.
type list struct {
	// Source is the module from which the advisories are.
	Source string `json:"source"`
	// Modules are the modules that were looked for.
	Modules []string `json:"modules"`
	// Advisories are all advisories of these modules.
	Advisories []advisory `json:"advisories"`
}

func check(path string) error {
	var known list
	if err := readYAML(path, &known); err != nil {
		return err
	}
	var exceptions []exception
	if err := readYAML(filepath.Join(folder, "exceptions.yaml"), &exceptions); err != nil {
		return err
	}
	linked, err := linkedModules()
	if err != nil {
		return err
	}
	return judge(known, linked, exceptions, time.Now())
}

// judge returns an error that names each linked module with an advisory, and each module whose advisories are unknown.
func judge(known list, linked modules, exceptions []exception, now time.Time) error {
	var errs []error
	for path := range linked {
		if !slices.Contains(known.Modules, path) {
			errs = append(errs, fmt.Errorf("the list does not cover %s: run `make refresh-advisories`", path))
		}
	}
	used := map[string]bool{}
	for _, a := range known.Advisories {
		for _, finding := range a.findings(linked) {
			if i := slices.IndexFunc(exceptions, func(e exception) bool { return e.ID == a.ID }); i >= 0 {
				used[a.ID] = true
				finding = exceptions[i].judge(finding, now)
			}
			if finding != nil {
				errs = append(errs, finding)
			}
		}
	}
	for _, e := range exceptions {
		if !used[e.ID] {
			errs = append(errs, fmt.Errorf("remove the exception for %s, which nothing needs", e.ID))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// exception lets an advisory stay until a date.
type exception struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Until  string `json:"until"`
}

// judge returns what is left of a finding.
func (e exception) judge(finding error, now time.Time) error {
	until, err := time.Parse(time.DateOnly, e.Until)
	switch {
	case err != nil || e.Reason == "":
		return fmt.Errorf("the exception for %s needs a reason, and a date `until` such as 2027-01-31", e.ID)
	case now.After(until.AddDate(0, 0, 1)):
		return fmt.Errorf("%w (its exception ended on %s)", finding, e.Until)
	}
	return nil
}

func fetch(path string) error {
	required, err := requiredModules()
	if err != nil {
		return err
	}
	text, err := output("go", "mod", "download", "-json", database+"@latest")
	if err != nil {
		return err
	}
	var downloaded struct{ Dir, Version string }
	if err := json.Unmarshal(text, &downloaded); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(downloaded.Dir, "data/osv/*.json"))
	if err != nil {
		return err
	}
	found := list{Source: database + "@" + downloaded.Version, Modules: required}
	for _, file := range files {
		var a advisory
		if err := readYAML(file, &a); err != nil {
			return err
		}
		if a.Withdrawn == "" && a.concerns(required) {
			found.Advisories = append(found.Advisories, a)
		}
	}
	if len(found.Advisories) == 0 {
		return fmt.Errorf("%s has no advisories of modules that Tripod requires", found.Source)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(found); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// readYAML reads a file in YAML or JSON.
func readYAML(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
