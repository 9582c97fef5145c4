// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// exception is an incompatible change that is meant.
type exception struct {
	// Change is the message of the change.
	Change string `json:"change"`
	// Reason says why users have to change their code, and how.
	Reason string `json:"reason"`
}

type exceptions []exception

func readExceptions(repository, file string) (exceptions, error) {
	text, err := os.ReadFile(filepath.Join(repository, file))
	if err != nil {
		return nil, err
	}
	var all exceptions
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, e := range all {
		if e.Change == "" || e.Reason == "" {
			return nil, fmt.Errorf("%s: each entry needs change and reason", file)
		}
	}
	return all, nil
}

// judge returns an error for each incompatible change that is not listed, and each entry that is about none.
func (all exceptions) judge(broken []string, file string) error {
	var errs []error
	for _, message := range slices.Sorted(slices.Values(broken)) {
		if !slices.ContainsFunc(all, func(e exception) bool { return e.Change == message }) {
			errs = append(errs, fmt.Errorf("this breaks the code of users: %s", message))
		}
	}
	if len(errs) > 0 {
		errs = append(errs, fmt.Errorf("undo it, or add it to %s with a reason, and to CHANGELOG.md", file))
	}
	for _, e := range all {
		if !slices.Contains(broken, e.Change) {
			errs = append(errs, fmt.Errorf("%s lists %q, which is no incompatible change since the last release: remove the entry",
				file, strings.TrimSpace(e.Change)))
		}
	}
	return errors.Join(errs...)
}
