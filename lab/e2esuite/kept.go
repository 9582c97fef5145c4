// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2esuite

import (
	"cmp"
	"slices"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/tripod-k8s/tripod/lab/kept"
)

// Kept is what came of the specs in one form with these versions.
type Kept struct {
	*kept.File[Result]
	// Err is why the last result could not be kept.
	Err error
}

// OpenKept reads what came of earlier runs of a form with the same versions.
func OpenKept(dir, form, version, node string) (*Kept, error) {
	file, err := kept.Open[Result](dir, form, version, node)
	return &Kept{File: file}, err
}

// LatestKept reads what came of the latest run of a form.
func LatestKept(dir, form string) (*Kept, error) {
	file, err := kept.Latest[Result](dir, form)
	return &Kept{File: file}, err
}

// Ended keeps that one of the specs passed or failed, in case the run is interrupted before its report, which has the reason why a spec failed.
func (k *Kept) Ended(e Ended, specs []string) {
	before := k.Results[e.Name]
	result := Result{Attempts: before.Attempts, Took: e.Took(), Failure: before.Failure}
	switch {
	case !slices.Contains(specs, e.Name):
		return
	case e.Passed():
		result.State = types.SpecStatePassed
		result.Attempts++
	case e.Failed():
		result.State = types.SpecStateFailed // the report counts the attempt
	default:
		return
	}
	k.Results[e.Name] = result
	k.Err = k.Save()
}

// Add keeps the results of a run, but for specs that the end of the run interrupted. Attempts counts over runs: a spec that failed before has one
// more, and keeps why it failed.
func (k *Kept) Add(found Results) error {
	for name, result := range found {
		if result.interrupted() {
			continue
		}
		if before := k.Results[name]; before.Passed() {
			result.Attempts = max(result.Attempts, before.Attempts)
		} else {
			result.Attempts += before.Attempts
		}
		result.Failure = cmp.Or(result.Failure, k.Results[name].Failure)
		k.Results[name] = result
	}
	return k.Save()
}

// Missing returns the specs that have not passed.
func (k *Kept) Missing(wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(spec string) bool { return k.Results[spec].Passed() })
}

// Unknown returns the specs that have not run.
func (k *Kept) Unknown(wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(spec string) bool { _, ran := k.Results[spec]; return ran })
}

// Of returns the results of some specs.
func (k *Kept) Of(specs []string) Results {
	some := Results{}
	for _, spec := range specs {
		if result, ran := k.Results[spec]; ran {
			some[spec] = result
		}
	}
	return some
}
