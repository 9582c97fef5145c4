// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestListIsReadAsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "specs.txt")
	require.NoError(t, writeList(path, []string{"[sig-b] two", "[sig-a] one", "[sig-b] two"}))
	got, err := readList(path)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff([]string{"[sig-a] one", "[sig-b] two"}, got))
}

func TestTheListIsOfKnownGroups(t *testing.T) {
	specs, err := readList("specs.txt")
	require.NoError(t, err)
	if len(specs) == 0 {
		t.Error("the list is empty")
	}
	for _, spec := range specs {
		assert.Contains(t, groups, groupOf(spec), "%q is of none of the groups", spec)
	}
}

func TestSpecsAreSelectedByGroupAndFocus(t *testing.T) {
	specs := []string{"[sig-auth] one", "[sig-auth] two", "[sig-apps] one"}
	if got := selected(specs, "sig-auth", regexp.MustCompile("o")); len(got) != 2 {
		t.Errorf("selected %q", got)
	}
	if got := selected(specs, "sig-auth", regexp.MustCompile("one")); !slices.Equal(got, specs[:1]) {
		t.Errorf("selected %q", got)
	}
}

func TestFocusMatchesTheSpecsOnly(t *testing.T) {
	focus := regexp.MustCompile(exactly([]string{"[sig-auth] works (1+1)", "[sig-auth] too"}))
	for name, want := range map[string]bool{
		"Kubernetes e2e suite [sig-auth] works (1+1)":          true,
		"Kubernetes e2e suite [sig-auth] too":                  true,
		"Kubernetes e2e suite [sig-auth] too [Slow]":           false,
		"Kubernetes e2e suite [sig-auth] works (11)":           false,
		"Kubernetes e2e suite [sig-apps] and [sig-auth] other": false,
	} {
		assert.Equal(t, want, focus.MatchString(name), "%q matches", name)
	}
}

func TestARefreshReplacesWhatItRan(t *testing.T) {
	got := replaced([]string{"kept", "failed now", "passes again"}, []string{"failed now", "passes again", "new"}, []string{"passes again", "new"})
	if want := []string{"kept", "passes again", "new"}; !slices.Equal(got, want) {
		t.Errorf("list is %q, want %q", got, want)
	}
}

func TestReportOfGinkgoIsRead(t *testing.T) {
	spec := func(name string, state types.SpecState, failure string) types.SpecReport {
		return types.SpecReport{
			ContainerHierarchyTexts: []string{"[sig-auth] tokens"}, LeafNodeText: name, LeafNodeType: types.NodeTypeIt,
			State: state, NumAttempts: 1, Failure: types.Failure{Message: failure},
		}
	}
	path := filepath.Join(t.TempDir(), "report.json")
	err := reporters.GenerateJSONReport(types.Report{SpecReports: types.SpecReports{
		{LeafNodeType: types.NodeTypeSynchronizedBeforeSuite, State: types.SpecStatePassed},
		spec("work", types.SpecStatePassed, ""),
		spec("fail", types.SpecStateFailed, "reason"),
		spec("are not chosen", types.SpecStateSkipped, ""),
		spec("skip themselves", types.SpecStateSkipped, "needs a cloud"),
	}}, path)
	require.NoError(t, err)
	got, err := readReport(path)
	require.NoError(t, err)
	want := results{
		"[sig-auth] tokens work":            {State: types.SpecStatePassed, Attempts: 1},
		"[sig-auth] tokens fail":            {State: types.SpecStateFailed, Attempts: 1, Failure: "reason"},
		"[sig-auth] tokens skip themselves": {State: types.SpecStateSkipped, Attempts: 1, Failure: "needs a cloud"},
	}
	assert.Empty(t, cmp.Diff(want, got))
}

func TestAReportOfASuiteThatCouldNotStartIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	err := reporters.GenerateJSONReport(types.Report{SpecReports: types.SpecReports{{
		LeafNodeType: types.NodeTypeSynchronizedBeforeSuite, State: types.SpecStateFailed, Failure: types.Failure{Message: "no nodes"},
	}}}, path)
	require.NoError(t, err)
	if _, err := readReport(path); err == nil || !strings.Contains(err.Error(), "no nodes") {
		t.Errorf("error is %v", err)
	}
}

func TestReportCountsWhatPassesOnStockOnly(t *testing.T) {
	passed, failed := result{State: types.SpecStatePassed}, result{State: types.SpecStateFailed, Failure: "reason"}
	var output strings.Builder
	got := report(&output,
		results{"both": passed, "stock": passed, "tripod": failed, "neither": failed, "missing": passed},
		results{"both": passed, "stock": failed, "tripod": passed, "neither": failed})
	assert.Equal(t, 2, got, "%d differences, want 2", got)
	for _, want := range []string{
		"failed on Tripod: stock\n  reason", "failed on stock: tripod", "on Tripod: missing", "stock:  3 of 5", "Tripod: 2 of 4",
	} {
		assert.Contains(t, output.String(), want, "the report")
	}
}

func TestProgressIsALineForEachSpec(t *testing.T) {
	const parallel = `[SynchronizedBeforeSuite] PASSED [0.005 seconds]
------------------------------
• [0.078 seconds]
[sig-auth] one [Conformance] [sig-auth, Conformance]
k8s.io/kubernetes/test/e2e/auth/one.go:1

  Timeline >>
------------------------------
• [FAILED] [4.404 seconds]
[sig-auth] tokens [It] two [Conformance] [sig-auth, Conformance]
`
	const serial = `[sig-auth] one [Conformance] [sig-auth, Conformance]
k8s.io/kubernetes/test/e2e/auth/one.go:1
• [0.078 seconds]
------------------------------
[sig-auth] tokens two [Conformance] [sig-auth, Conformance]
k8s.io/kubernetes/test/e2e/auth/two.go:1
• [FAILED] [4.404 seconds]
[sig-auth] tokens [It] two [Conformance] [sig-auth, Conformance]
`
	want := "stock   1 [0.078 seconds] [sig-auth] one\nstock   2 [FAILED] [4.404 seconds] [sig-auth] tokens two\n"
	for name, ginkgo := range map[string]string{"parallel": parallel, "serial": serial} {
		t.Run(name, func(t *testing.T) {
			var output strings.Builder
			// Output comes in pieces.
			p := struct{ io.Writer }{newProgress(&output, "stock")}
			if _, err := io.CopyBuffer(p, struct{ io.Reader }{strings.NewReader(ginkgo)}, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			assert.Empty(t, cmp.Diff(want, output.String()))
		})
	}
}

func TestUnknownGroupsAreRefused(t *testing.T) {
	if _, err := parse([]string{"-sig", "sig-auth,sig-node"}); err == nil || !strings.Contains(err.Error(), "sig-node") {
		t.Errorf("error is %v", err)
	}
}
