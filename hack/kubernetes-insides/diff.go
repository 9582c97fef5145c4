// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// show writes what changed in declarations since they were last compared.
func (c *comparison) show(out io.Writer) error {
	if len(c.changed)+len(c.gone) == 0 {
		_, err := fmt.Fprintln(out, "No declaration changed.")
		return err
	}
	dir, err := os.MkdirTemp("", "kubernetes-insides")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	for _, d := range append(c.changed, c.gone...) {
		now := c.modules[d.file]
		recorded := c.list.Versions[now.path]
		if recorded == "" {
			fmt.Fprintf(out, "%s of %s was never compared\n", d.name, d.file)
			continue
		}
		before, err := now.at(recorded)
		if err != nil {
			return err
		}
		if err := showOne(out, dir, d.declaration, before, now); err != nil {
			return err
		}
	}
	return nil
}

func showOne(out io.Writer, dir string, d declaration, versions ...*module) error {
	args := []string{"-u"}
	for i, m := range versions {
		text, err := source(m.file(d.file), d.name)
		if err != nil && !errors.Is(err, errGone) {
			return err
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			return err
		}
		args = append(args, "--label", fmt.Sprintf("%s of %s %s", d.name, d.file, m.version))
	}
	for i := range versions {
		args = append(args, filepath.Join(dir, fmt.Sprint(i)))
	}
	command := exec.Command("diff", args...)
	command.Stdout, command.Stderr = out, os.Stderr
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // they differ
	}
	return err
}
