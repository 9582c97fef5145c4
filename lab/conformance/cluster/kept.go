// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/tripod-k8s/tripod/lab/e2esuite"

// kept is what came of the specs in one form with these versions.
type kept struct{ *e2esuite.Kept }

// openKept reads what came of earlier runs with the same versions.
func openKept(dir string, f form, version, node string) (*kept, error) {
	k, err := e2esuite.OpenKept(dir, string(f), version, node)
	return &kept{k}, err
}

// latestKept reads what came of the latest run of a form.
func latestKept(dir string, f form) (*kept, error) {
	k, err := e2esuite.LatestKept(dir, string(f))
	return &kept{k}, err
}

func (k *kept) form() form { return form(k.Form) }
