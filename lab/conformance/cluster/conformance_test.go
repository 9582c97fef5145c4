// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/lab/e2esuite"
)

const (
	one   = "[sig-apps] one [Conformance]"
	two   = "[sig-node] two [Conformance]"
	three = "[sig-node] ImageVolume should succeed with two [Conformance]"
)

var suite = map[string]bool{one: false, two: true, three: false}

func passed() e2esuite.Result {
	return e2esuite.Result{State: types.SpecStatePassed, Attempts: 1, Took: 2 * time.Second}
}

func failed(why string) e2esuite.Result {
	return e2esuite.Result{State: types.SpecStateFailed, Attempts: 1, Took: time.Second, Failure: why}
}

func keptOf(t *testing.T, results e2esuite.Results) *kept {
	t.Helper()
	k, err := openKept(t.TempDir(), dropInForm, "v1", "")
	require.NoError(t, err)
	require.NoError(t, k.Add(results))
	return k
}

func TestPartsOfTheSpecsMakeTheWhole(t *testing.T) {
	var s shard
	for _, wrong := range []string{"", "2", "0/3", "4/3", "1/0", "1/2x", "a/b"} {
		assert.Error(t, s.Set(wrong), wrong)
	}
	all := []string{"a", "b", "c", "d", "e"}
	seen := map[string]int{}
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		require.NoError(t, s.Set(part))
		assert.Equal(t, part, s.String())
		for _, spec := range s.of(all) {
			seen[spec]++
		}
	}
	assert.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, seen)
}

func TestFlagsChooseSpecs(t *testing.T) {
	o, err := parse([]string{"-sig", "sig-node", "-focus", "two", "-form", "drop-in"})
	require.NoError(t, err)
	assert.Equal(t, []form{dropInForm}, o.forms)
	assert.Equal(t, []string{three, two}, o.choose(suite))
	o.sigs, o.focus = nil, regexp.MustCompile("")
	assert.Len(t, o.choose(suite), 3)
	_, err = parse([]string{"-form", "drop-in,other"})
	assert.ErrorContains(t, err, `"other" is none of drop-in, static-pods, rolling, stock`)
}

func TestFilesForCertification(t *testing.T) {
	k, err := openKept(t.TempDir(), staticPodsForm, "v1", "v1.36.3")
	require.NoError(t, err)
	for name, log := range map[string]string{"02-serial": "second\n", "01-parallel": "first\n"} {
		require.NoError(t, os.WriteFile(e2esuite.Run{Name: name, Dir: k.Dir}.Log(), []byte(log), 0o600))
	}
	require.NoError(t, k.Add(e2esuite.Results{one: passed(), two: failed("why & where")}))
	require.NoError(t, k.certify(suite))
	log, err := os.ReadFile(filepath.Join(k.Dir, "e2e.log"))
	require.NoError(t, err)
	assert.Equal(t, "first\nsecond\n", string(log))
	data, err := os.ReadFile(filepath.Join(k.Dir, "junit_01.xml"))
	require.NoError(t, err)
	var junit reporters.JUnitTestSuites
	require.NoError(t, xml.Unmarshal(data, &junit))
	require.Equal(t, 2, junit.Tests)
	require.Equal(t, 1, junit.Failures)
	cases := junit.TestSuites[0].TestCases
	assert.Equal(t, "[It] "+one, cases[0].Name)
	assert.Equal(t, "passed", cases[0].Status)
	assert.Equal(t, "why & where", cases[1].Failure.Message)
	for file, want := range map[string]string{"PRODUCT.yaml": "version: v1", "README.md": "1 of 3 conformance specs passed"} {
		text, err := os.ReadFile(filepath.Join(k.Dir, file))
		require.NoError(t, err)
		assert.Contains(t, string(text), want)
	}
}

func TestStockRunsWhatDoesNotPassOnTripod(t *testing.T) {
	wanted := []string{one, two, three}
	all := map[form]*kept{
		dropInForm:     keptOf(t, e2esuite.Results{one: passed(), two: passed(), three: failed("")}),
		staticPodsForm: keptOf(t, e2esuite.Results{one: passed(), three: failed("")}),
		stockForm:      keptOf(t, nil),
	}
	o := &options{}
	assert.Equal(t, wanted, o.neededIn(dropInForm, all, wanted))
	assert.Equal(t, []string{two, three}, o.neededIn(stockForm, all, wanted))
	assert.Equal(t, wanted, o.neededIn(stockForm, map[form]*kept{stockForm: all[stockForm]}, wanted))
	o.allOnStock = true
	assert.Equal(t, wanted, o.neededIn(stockForm, all, wanted))
}

func TestPageSaysWhatRanAndWhatPassed(t *testing.T) {
	dir := t.TempDir()
	all := map[form]*kept{}
	for _, f := range allForms {
		k, err := openKept(dir, f, "v1", "v1.34.4")
		require.NoError(t, err)
		require.NoError(t, k.Add(e2esuite.Results{three: failed("no such volume")}))
		if f != stockForm {
			require.NoError(t, k.Add(e2esuite.Results{one: passed(), two: passed()}))
		}
		all[f] = k
	}
	delete(all[staticPodsForm].Results, one)
	require.NoError(t, all[rollingForm].Add(e2esuite.Results{two: {State: types.SpecStatePassed, Attempts: 3, Failure: "Watch closed"}}))
	all[rollingForm].Rolls = rolls{"core": 2, "aggregator": 1}
	path := filepath.Join(dir, "conformance.md")
	require.NoError(t, writeDocs(path, all, suite))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, want := range []string{
		"| all | 3 | **2** of 3 | **1** of 2 | **2** of 3 | **0** of 1 |", "| sig-node | 2 | 1 of 2 | 1 of 2 | 1 of 2 | 0 of 1 |",
		"| sig-apps | 1 | 1 of 1 | not run | 1 of 1 | not run |", "(count 3: aggregator 1, core 2)",
		"| [sig-node] two | rolling | 3 | Watch closed |",
		"| [sig-node] ImageVolume should succeed with two | drop-in, static-pods, rolling, stock | needs a kubelet and a container runtime that mount images as volumes |",
	} {
		assert.Contains(t, string(text), want)
	}
	assert.NotContains(t, string(text), "[sig-apps] one", "what passes wherever it ran is not listed")
	assert.NotContains(t, string(text), "Not run with")

	delete(all, staticPodsForm)
	delete(all, rollingForm)
	require.NoError(t, writeDocs(path, all, suite))
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(text), "Not run with this version of Kubernetes: `static-pods`, `rolling`.")
}

func TestSpecsSayWhichKubeletTheyNeed(t *testing.T) {
	for _, tc := range []struct {
		spec, node, want string
	}{
		{one, "v1.34.4", ""},
		{"[sig-auth] bundles [MinimumKubeletVersion:1.37] [Conformance]", "v1.34.4", "1.37"},
		{"[sig-auth] bundles [MinimumKubeletVersion:1.37] [Conformance]", "v1.37.0", ""},
		{"[sig-auth] bundles [MinimumKubeletVersion:1.37] [Conformance]", "", ""},
	} {
		needs, newer := needsNewerKubelet(tc.spec, tc.node)
		assert.Equal(t, tc.want != "", newer, "%s on %s", tc.spec, tc.node)
		if newer {
			assert.Equal(t, tc.want, needs)
			assert.Equal(t, "needs a kubelet of 1.37", reasonFor(tc.spec, tc.node, "timed out"))
		}
	}
}
