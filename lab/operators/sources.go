// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tripod-k8s/tripod/e2e/progress"
)

// checkout is the sources of a project at its commit.
type checkout struct {
	project
	// dir has the sources, out the tests and logs.
	dir, out string
	// environment is added to that of this process when the tests are built and run.
	environment []string
}

// openSources returns the sources of a project. It fetches them, if they are not there yet, from a repository in sources, or from the project's
// own if sources is empty.
func openSources(ctx context.Context, p project, sources, results, assets string) (*checkout, error) {
	c := &checkout{
		project: p,
		dir:     filepath.Join(results, "sources", p.folder()),
		out:     filepath.Join(results, "logs", p.folder()),
	}
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return nil, fmt.Errorf("make a place for the logs: %w", err)
	}
	for name, value := range p.Environment {
		c.environment = append(c.environment, name+"="+c.expand(value, assets))
	}
	done := filepath.Join(results, "sources", p.folder()+".done")
	want := strings.Join(append([]string{p.Commit}, p.Prepare...), "\n")
	if have, err := os.ReadFile(done); err == nil && string(have) == want {
		return c, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	from := p.Repository
	if sources != "" {
		from = filepath.Join(sources, p.folder())
	}
	err := progress.Step("fetch "+p.Name+" "+p.Version, func() error { return c.fetch(ctx, from) })
	if err != nil {
		return nil, err
	}
	for _, line := range p.Prepare {
		line = c.expand(line, assets)
		err := progress.Step(p.Name+": "+line, func() error { return c.command(ctx, c.dir, "sh", "-c", line) })
		if err != nil {
			return nil, err
		}
	}
	return c, os.WriteFile(done, []byte(want), 0o644)
}

// expand replaces the variables of projects.yaml. Others are left to the shell.
func (c *checkout) expand(text, assets string) string {
	return strings.NewReplacer("${SOURCE}", c.dir, "${ASSETS}", assets).Replace(text)
}

// fetch makes a work tree with nothing but the commit. A tag that has moved is an error.
func (c *checkout) fetch(ctx context.Context, from string) error {
	if err := os.RemoveAll(c.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"fetch", "--quiet", "--depth=1", from, "refs/tags/" + c.Version},
		{"-c", "advice.detachedHead=false", "checkout", "--quiet", c.Commit},
	} {
		if err := c.command(ctx, c.dir, "git", args...); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program in a folder of the sources. Flags of this repository's Makefile, such as -trimpath, would break tests that look for
// files beside their sources. The sources are in this repository's workspace, but not of it.
func (c *checkout) command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	cmd.Env = append(cmd.Env, c.environment...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s in %s: %w\n%s", name, strings.Join(args, " "), dir, err, lastLines(string(output)))
	}
	return nil
}

// build builds the tests of a package.
func (c *checkout) build(ctx context.Context, name string) (*tests, error) {
	t := &tests{checkout: c, name: name, path: filepath.Join(c.out, strings.ReplaceAll(name, "/", "-")+".test")}
	module := filepath.Join(c.dir, c.Module)
	err := progress.Step(fmt.Sprintf("%s: build %s", c.Name, name), func() error {
		return c.command(ctx, module, "go", "test", "-c", "-ldflags=-s -w", "-o", t.path, "./"+name)
	})
	t.dir = filepath.Join(module, name)
	return t, err
}
