// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kube runs a command, mostly make, in a copy of this checkout that builds with another minor version of Kubernetes. In the copy,
// the files in kube/MINOR take the place of those with the same names: module files, and generated files that differ. The copy is
// bin/kube-MINOR, and what the command builds stays there. With -save, the files that the command changed go back into kube/MINOR.
//
//	go run ./hack/kube -minor 1.36 -- make build
//	go run ./hack/kube -table docs/kubernetes-versions.md     writes which files depend on the version
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	minor := flag.String("minor", "", "version of Kubernetes, such as 1.36")
	save := flag.Bool("save", false, "move files that the command changed into kube/MINOR")
	table := flag.String("table", "", "page to write the table of files into that depend on the version")
	flag.Parse()
	var err error
	if *table != "" {
		err = writeTable(".", *table)
	} else {
		err = run(*minor, *save, flag.Args())
	}
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		os.Exit(failed.ExitCode()) // the command has printed why
	case err != nil:
		fmt.Fprintln(os.Stderr, "kube:", err)
		os.Exit(1)
	}
}

func run(minor string, save bool, command []string) error {
	if len(command) == 0 {
		return errors.New("name the command to run")
	}
	v, err := newVersion(".", minor)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(v.copy, 0o750); err != nil {
		return err
	}
	// The copy must stay as it is while a command runs in it.
	lock, err := os.OpenFile(v.copy+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // that unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another command runs in %s", v.copy)
	}
	ours, err := files(".")
	if err != nil {
		return err
	}
	if err := v.write(ours); err != nil {
		return err
	}
	child := exec.Command(command[0], command[1:]...)
	child.Dir, child.Stdin, child.Stdout, child.Stderr = v.copy, os.Stdin, os.Stdout, os.Stderr
	if err := child.Run(); err != nil || !save {
		return err
	}
	return v.save()
}

// files returns the names of the files of a checkout, those that git does not know yet among them.
func files(root string) ([]string, error) {
	command := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	command.Dir, command.Stderr = root, os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			names = append(names, name)
		}
	}
	return names, nil
}
