// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework/e2esuite"
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

func TestSpecsAreSelectedByGroupAndFocus(t *testing.T) {
	specs := []string{"[sig-auth] one", "[sig-auth] two", "[sig-apps] one"}
	if got := selected(specs, "sig-auth", regexp.MustCompile("o")); len(got) != 2 {
		t.Errorf("selected %q", got)
	}
	if got := selected(specs, "sig-auth", regexp.MustCompile("one")); !slices.Equal(got, specs[:1]) {
		t.Errorf("selected %q", got)
	}
}

func TestARefreshReplacesWhatItRan(t *testing.T) {
	got := replaced([]string{"kept", "failed now", "passes again"}, []string{"failed now", "passes again", "new"}, []string{"passes again", "new"})
	if want := []string{"kept", "passes again", "new"}; !slices.Equal(got, want) {
		t.Errorf("list is %q, want %q", got, want)
	}
}

func TestUnknownGroupsAreRefused(t *testing.T) {
	if _, err := parse([]string{"-sig", "sig-auth,sig-node"}); err == nil || !strings.Contains(err.Error(), "sig-node") {
		t.Errorf("error is %v", err)
	}
}
