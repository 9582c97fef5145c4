// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package partitions

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
)

func TestEachGroupHasOnePartition(t *testing.T) {
	table, err := Parse([]string{"crossplane=*.crossplane.io,crossplane.io", "big=example.com,*.example.net"})
	require.NoError(t, err)
	for group, want := range map[string]string{
		"pkg.crossplane.io": "crossplane", "a.b.crossplane.io": "crossplane", "crossplane.io": "crossplane", "notcrossplane.io": Default,
		"example.com": "big", "www.example.com": Default, "x.example.net": "big", "example.net": Default,
		"apps": Default, "apiextensions.k8s.io": Default, "": Default,
	} {
		assert.Equal(t, want, table.Of(group), group)
	}
}

func TestWrongTablesAreOneLineEach(t *testing.T) {
	for _, test := range []struct {
		name    string
		entries []string
		want    string
	}{
		{"no groups", []string{"a"}, `"a" is not of the form NAME=GROUP[,GROUP...]`},
		{"empty groups", []string{"a="}, "partition a: name at least one API group"},
		{"twice", []string{"a=b.com", "a=c.com"}, "a is given twice; separate several groups by commas"},
		{"everything", []string{"a=*"}, `partition a: "*" matches every API group: give groups, or *.SUFFIX`},
		{"a pattern in the middle", []string{"a=b.*.com"}, `partition a: "b.*.com" is not the name of an API group, nor of the form *.SUFFIX`},
		{"a built-in group", []string{"a=apps"}, "partition a: apps has the group apps, which is built in"},
		{"a pattern with a built-in group", []string{"a=*.k8s.io"}, "partition a: *.k8s.io has the group admissionregistration.k8s.io, which is built in"},
		{"definitions", []string{"a=apiextensions.k8s.io"}, "which is built in"},
		{"the same group", []string{"a=b.com", "c=b.com"}, "partitions a and c overlap: b.com and b.com have groups in common"},
		{"a group below a suffix", []string{"a=*.b.com", "c=x.b.com"}, "partitions a and c overlap: *.b.com and x.b.com have groups in common"},
		{"a suffix below a suffix", []string{"a=*.x.b.com", "c=*.b.com"}, "partitions a and c overlap: *.x.b.com and *.b.com have groups in common"},
		{"the same group twice", []string{"a=b.com,b.com"}, "partition a: b.com is given twice"},
		{"two mistakes", []string{"a=*.b.com", "c=x.b.com", "d=apps"}, "x.b.com have groups in common; partition d: apps has the group apps, which is built in"},
		{"a name that is none", []string{"A=b.com"}, `partition A: "A" is not the name of a partition`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse(test.entries)
			require.Error(t, err)
			assert.Contains(t, err.Error(), test.want)
			assert.NotContains(t, err.Error(), "\n", "one line")
		})
	}
}

func TestASuffixDoesNotContainItself(t *testing.T) {
	_, err := Parse([]string{"a=b.com", "c=*.b.com"})
	assert.NoError(t, err)
}

func TestTheTableOfAListOfBackends(t *testing.T) {
	table, err := In(map[string]addresses.Service{
		"extensions-big": {Groups: []string{"*.example.com", "example.com"}}, "search": {Groups: []string{"clusterpedia.io"}}, "wardle": {},
	})
	require.NoError(t, err)
	assert.Equal(t, Table{"big": {"*.example.com", "example.com"}}, table)
	assert.Equal(t, "big=*.example.com,example.com", table.String())
}
