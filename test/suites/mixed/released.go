// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mixed runs services of the last release beside those of this version, as an upgrade does.
package mixed

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// reference names the last release.
const reference = "proto/released.ref"

// unpack writes the files of the last release of a repository into an empty folder, and returns its name. Without the history of the repository, that
// is an error.
func unpack(repository, folder string) (release string, err error) {
	if release, err = lastRelease(repository); err != nil {
		return "", err
	}
	archive := filepath.Join(folder, "release.tar")
	if _, err := git(repository, "archive", "--output="+archive, release); err != nil {
		return "", fmt.Errorf("%w\nThis needs the history of the repository: git fetch --tags --unshallow", err)
	}
	if output, err := exec.Command("tar", "-xf", archive, "-C", folder).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack %s: %w: %s", release, err, output)
	}
	return release, os.Remove(archive)
}

// lastRelease reads the reference. It is an error if there has been another release since.
func lastRelease(repository string) (string, error) {
	file, err := os.Open(filepath.Join(repository, reference))
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it is only read
	var named []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			named = append(named, line)
		}
	}
	if len(named) != 1 {
		return "", fmt.Errorf("%s names %d releases, and not one", reference, len(named))
	}
	newest, err := newestTag(repository)
	if err == nil && newest != "" && newest != named[0] {
		err = fmt.Errorf("%s names %s, and %s was released since: name that", reference, named[0], newest)
	}
	return named[0], err
}

// newestTag returns the newest release that HEAD is based on, or nothing. It is not HEAD itself, and not a preliminary one.
func newestTag(repository string) (string, error) {
	tags, err := git(repository, "tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname")
	if err != nil {
		return "", err
	}
	own, err := git(repository, "tag", "--points-at", "HEAD")
	if err != nil {
		return "", err
	}
	for tag := range strings.FieldsSeq(tags) {
		if !strings.Contains(tag, "-") && !slices.Contains(strings.Fields(own), tag) {
			return tag, nil
		}
	}
	return "", nil
}

// git returns what git prints about a repository.
func git(repository string, args ...string) (string, error) {
	command := exec.Command("git", append([]string{"-C", repository}, args...)...)
	out, err := command.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("git %s: %s", strings.Join(args, " "), strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
