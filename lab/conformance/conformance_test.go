// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/lab/e2esuite"
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
		assert.Contains(t, groups, e2esuite.GroupOf(spec), "%q is of none of the groups", spec)
	}
}

func TestFlagsChooseSpecs(t *testing.T) {
	specs := []string{"[sig-auth] one", "[sig-auth] two [Conformance]", "[sig-apps] one"}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{nil, specs},
		{[]string{"-sig", "sig-auth"}, specs[:2]},
		{[]string{"-focus", "one"}, []string{specs[0], specs[2]}},
		{[]string{"-sig", "sig-auth,sig-apps", "-skip", "Conformance"}, []string{specs[0], specs[2]}},
	} {
		o, err := parse(test.args)
		require.NoError(t, err)
		assert.Equal(t, test.want, o.choose(specs), "%q", test.args)
	}
}

func TestARefreshReplacesWhatItRan(t *testing.T) {
	got := replaced([]string{"kept", "failed now", "passes again", "renamed"}, []string{"kept", "failed now", "passes again", "new"},
		[]string{"failed now", "passes again", "new"}, []string{"passes again", "new"})
	if want := []string{"kept", "passes again", "new"}; !slices.Equal(got, want) {
		t.Errorf("list is %q, want %q", got, want)
	}
}

func TestUnknownGroupsAreRefused(t *testing.T) {
	if _, err := parse([]string{"-sig", "sig-auth,sig-node"}); err == nil || !strings.Contains(err.Error(), "sig-node") {
		t.Errorf("error is %v", err)
	}
}

func TestClustersStartWithTheGatesThatSpecsNeed(t *testing.T) {
	suite := []string{
		"[sig-auth] plain", "[sig-auth] [FeatureGate:B] [Alpha] [Feature:OffByDefault] one", "[sig-apps] on anyway [FeatureGate:C]",
		"[sig-apps] [FeatureGate:A] [Beta] [Feature:OffByDefault] [FeatureGate:B] [Alpha] [Feature:OffByDefault] two", "[sig-api-machinery] CBOR [Feature:CBOR]",
		"[sig-api-machinery] StorageVersion resources [Feature:StorageVersionAPI]",
	}
	settings := bySetting(suite)
	byName := map[string][]string{}
	for s, specs := range settings {
		byName[s.name] = append(s.gateFlags(suite), s.apiFlags()...)
		assert.NotEmpty(t, specs)
	}
	assert.Equal(t, map[string][]string{
		"default":          nil,
		"gates":            {"--feature-gates=A=true,B=true,CBORServingAndStorage=true", "--runtime-config=api/all=true"},
		"storage-versions": {"--feature-gates=APIServerIdentity=true,StorageVersionAPI=true", "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"},
	}, byName)
	runs, refused := withoutRefused(suite)
	assert.Equal(t, suite[:5], runs)
	assert.Equal(t, suite[5:], refused)
}

func TestCountsAreByGroup(t *testing.T) {
	passed := e2esuite.Result{State: types.SpecStatePassed}
	var output strings.Builder
	printCounts(&output, []string{"[sig-auth] one", "[sig-auth] two", "[sig-apps] one"},
		e2esuite.Results{"[sig-auth] one": passed, "[sig-auth] two": passed}, e2esuite.Results{"[sig-auth] one": passed, "[sig-auth] two": {}})
	assert.Contains(t, output.String(), "| sig-apps | 1 | 0 | 0 |\n| sig-auth | 2 | 2 | 1 |\n")
}
