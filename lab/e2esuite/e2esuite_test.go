// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2esuite

import (
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFocusMatchesTheSpecsOnly(t *testing.T) {
	focus := regexp.MustCompile(Exactly([]string{"[sig-auth] works (1+1)", "[sig-auth] too"}))
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
	want := Results{
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

func TestProgressTellsOfEachSpec(t *testing.T) {
	const parallel = `[SynchronizedBeforeSuite] PASSED [0.005 seconds]
------------------------------
• [0.078 seconds]
[sig-auth] one [Conformance] [sig-auth, Conformance]
k8s.io/kubernetes/test/e2e/auth/one.go:1

  Timeline >>
------------------------------
• [FAILED] [4.404 seconds]
[sig-auth] tokens [It] two [Slow] [sig-auth, Slow]
`
	const serial = `[sig-auth] one [Conformance] [sig-auth, Conformance]
k8s.io/kubernetes/test/e2e/auth/one.go:1
• [0.078 seconds]
------------------------------
[sig-auth] tokens two [Slow] [sig-auth, Slow]
k8s.io/kubernetes/test/e2e/auth/two.go:1
• [FAILED] [4.404 seconds]
[sig-auth] tokens [It] two [Slow] [sig-auth, Slow]
`
	want := []Ended{{1, "[sig-auth] one [Conformance]", "[0.078 seconds]"}, {2, "[sig-auth] tokens two [Slow]", "[FAILED] [4.404 seconds]"}}
	for name, ginkgo := range map[string]string{"parallel": parallel, "serial": serial} {
		t.Run(name, func(t *testing.T) {
			var got []Ended
			// Output comes in pieces.
			p := struct{ io.Writer }{newProgress(func(e Ended) { got = append(got, e) })}
			if _, err := io.CopyBuffer(p, struct{ io.Reader }{strings.NewReader(ginkgo)}, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			assert.Empty(t, cmp.Diff(want, got))
			assert.True(t, got[0].Passed() && !got[1].Passed())
			assert.Equal(t, 4404*time.Millisecond, got[1].Took())
		})
	}
}

func TestReportCountsWhatPassesOnStockOnly(t *testing.T) {
	passed, failed := Result{State: types.SpecStatePassed}, Result{State: types.SpecStateFailed, Failure: "reason"}
	var output strings.Builder
	got := Compare(&output, "Tripod",
		Results{"both": passed, "stock": passed, "tripod": failed, "neither": failed, "missing": passed},
		Results{"both": passed, "stock": failed, "tripod": passed, "neither": failed})
	assert.Equal(t, 2, got, "%d differences, want 2", got)
	for _, want := range []string{
		"failed on Tripod: stock\n  reason", "failed on stock: tripod", "on Tripod: missing", "stock:  3 of 5", "Tripod: 2 of 4",
	} {
		assert.Contains(t, output.String(), want, "the report")
	}
}
