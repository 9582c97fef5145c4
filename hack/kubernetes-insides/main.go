// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubernetes-insides guards what Tripod relies on although Kubernetes does not promise it: unexported shapes, the order of things,
// and rules that exist both upstream and here. A list names each of them, with a digest of the upstream declarations.
//
//	go run ./hack/kubernetes-insides         fails if a declaration changed since it was last compared
//	go run ./hack/kubernetes-insides -diff   shows what changed in these declarations
//	go run ./hack/kubernetes-insides -fix    records them as compared
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

func main() {
	file := flag.String("list", "hack/kubernetes-insides.yaml", "list of what Tripod relies on")
	fix := flag.Bool("fix", false, "record the declarations as they are now, once they were compared")
	diff := flag.Bool("diff", false, "show what changed in declarations")
	ours := flag.Bool("ours", true, "check that our files and tests in the list exist, unless it is of an older version")
	flag.Parse()
	if err := do(*file, *ours, *fix, *diff, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes-insides:", err)
		os.Exit(1)
	}
}

func do(file string, ours, fix, diff bool, out io.Writer) error {
	l, err := readList(file)
	if err != nil {
		return err
	}
	if ours {
		if err := checkOurs(l.Insides); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	modules, err := modulesOf(l.files())
	if err != nil {
		return err
	}
	c := &comparison{list: l, modules: modules, digests: map[int]string{}}
	if err := c.compare(); err != nil {
		return err
	}
	switch {
	case diff:
		return c.show(out)
	case fix:
		if len(c.gone) > 0 {
			return errors.New(c.report() + "\nA declaration that is gone cannot be recorded. Name the one that took its place, or remove the entry.")
		}
		return os.WriteFile(file, l.record(c.versions(), c.digests), 0o644)
	case len(c.changed)+len(c.gone) > 0:
		return errors.New(c.report() + "\nSee the changes:              go run ./hack/kubernetes-insides -diff\n" +
			"When our code follows them:   make fix-insides")
	}
	return nil
}

// checkOurs returns an error if one of our files or tests does not exist.
func checkOurs(insides []inside) error {
	var errs []error
	for _, in := range insides {
		for _, file := range in.Ours {
			if _, err := os.Stat(file); err != nil {
				errs = append(errs, fmt.Errorf("%s does not exist: name the file that relies on this now: %s", file, in.ReliesOn))
			}
		}
		for _, test := range in.Tests {
			if err := checkTest(test); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// splitTest splits FOLDER.TEST.
func splitTest(test string) (folder, name string) {
	dot := strings.LastIndexByte(test, '.')
	return test[:max(dot, 0)], test[dot+1:]
}

func checkTest(test string) error {
	folder, name := splitTest(test)
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if find(parsed, name) != nil {
			return nil
		}
	}
	return fmt.Errorf("no test %s in %s", name, folder)
}

// comparison is the result of comparing the declarations of a list.
type comparison struct {
	list    *list
	modules map[string]*module
	// digests are the present digests of the declarations, by line of the list.
	digests map[int]string
	// changed and gone are the declarations that differ from the record.
	changed, gone []difference
}

// difference is a declaration that differs from the record, and its entry.
type difference struct {
	declaration
	in *inside
}

func (c *comparison) compare() error {
	for i := range c.list.Insides {
		in := &c.list.Insides[i]
		for _, d := range in.Upstream {
			text, err := source(c.modules[d.file].file(d.file), d.name)
			switch {
			case errors.Is(err, errGone):
				c.gone = append(c.gone, difference{d, in})
				continue
			case err != nil:
				return err
			}
			c.digests[d.line] = digest(text)
			if c.digests[d.line] != d.digest {
				c.changed = append(c.changed, difference{d, in})
			}
		}
	}
	return nil
}

// versions returns the versions of all modules.
func (c *comparison) versions() map[string]string {
	result := map[string]string{}
	for _, m := range c.modules {
		result[m.path] = m.version
	}
	return result
}

// report lists, for each entry concerned, what a person must look at.
func (c *comparison) report() string {
	var b strings.Builder
	for i := range c.list.Insides {
		in := &c.list.Insides[i]
		var lines []string
		for _, d := range c.changed {
			if d.in == in {
				lines = append(lines, c.line(d.declaration, "changed"))
			}
		}
		for _, d := range c.gone {
			if d.in == in {
				lines = append(lines, c.line(d.declaration, "no longer has")+c.hint(d.declaration))
			}
		}
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n  We rely on:  %s\n  Look at:     %s\n", strings.Join(lines, "\n"), in.ReliesOn, strings.Join(in.Ours, ", "))
		if len(in.Tests) == 0 {
			b.WriteString("  Test:        none of ours would notice\n")
		}
		for _, test := range in.Tests {
			folder, name := splitTest(test)
			fmt.Fprintf(&b, "  Test:        go test ./%s -run '^%s$'\n", folder, name)
		}
	}
	return b.String()
}

func (c *comparison) line(d declaration, verb string) string {
	if d.digest == "" {
		return fmt.Sprintf("%s of %s has no digest yet", d.name, d.file)
	}
	m := c.modules[d.file]
	since := ""
	if before := c.list.Versions[m.path]; before != "" {
		since = " since " + before
	}
	return fmt.Sprintf("%s %s %s %s%s (%s)", m.path, m.version, verb, d.name, since, strings.TrimPrefix(d.file, m.path+"/"))
}

// hint says where in the package a declaration is that is gone from its file, if it is still there.
func (c *comparison) hint(d declaration) string {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(c.modules[d.file].file(d.file)), "*.go"))
	if err != nil {
		return ""
	}
	for _, file := range files {
		if _, err := source(file, d.name); err == nil {
			return "; it is in " + path.Join(path.Dir(d.file), filepath.Base(file)) + " now"
		}
	}
	return ""
}
