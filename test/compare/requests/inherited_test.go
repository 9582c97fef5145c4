// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework/both"
)

// inheritedFile has the differences between two versions of kube-apiserver, one in a line. With TEST_AGAINST=stock, the test writes it and
// passes. Without, Tripod must differ in exactly these from the older kube-apiserver, beside the accepted ones.
var inheritedFile = os.Getenv("TEST_DIFFERENCES")

// inherited are these differences, and which of them were found.
type inherited struct {
	found map[string]bool
	// written is set if what is found is written.
	written bool
}

func readInherited() (inherited, error) {
	all := inherited{found: map[string]bool{}, written: inheritedFile != "" && both.AgainstStock}
	if inheritedFile == "" || all.written {
		return all, nil
	}
	data, err := os.ReadFile(inheritedFile)
	if err != nil {
		return all, fmt.Errorf("cannot read the differences between two versions of kube-apiserver: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		all.found[strings.TrimSuffix(line, "\n")] = false
	}
	return all, nil
}

// accepts reports whether a difference is that of kube-apiserver itself, or is now written as one.
func (i inherited) accepts(d difference) bool {
	line, err := json.Marshal([]string{d.request, d.at, d.stock, d.tripod})
	if err != nil {
		return false
	}
	_, known := i.found[string(line)]
	if known || i.written {
		i.found[string(line)] = true
		return true
	}
	return false
}

// finish writes the differences, or expects that all of the file were found.
func (i inherited) finish(t *testing.T) {
	t.Helper()
	if i.written {
		lines := strings.Join(slices.Sorted(maps.Keys(i.found)), "\n")
		require.NoError(t, os.WriteFile(inheritedFile, []byte(lines+"\n"), 0o600))
		t.Logf("%s has %d differences", inheritedFile, len(i.found))
		return
	}
	var absent []string
	for line, found := range i.found {
		if !found {
			absent = append(absent, line)
		}
	}
	slices.Sort(absent)
	if len(i.found) > 0 {
		t.Logf("%d of %d differences between two versions of kube-apiserver were found", len(i.found)-len(absent), len(i.found))
	}
	assert.Empty(t, absent, "kube-apiserver differs there from the older version, and Tripod does not")
}

func TestInheritedDifferencesAreThoseOfTheFile(t *testing.T) {
	const line = `["GET /version","body/minor","36","37"]`
	all := inherited{found: map[string]bool{line: false}}
	assert.True(t, all.accepts(difference{"GET /version", "body/minor", "36", "37"}))
	assert.False(t, all.accepts(difference{"GET /version", "body/minor", "36", "38"}))
	assert.Equal(t, map[string]bool{line: true}, all.found)
}
