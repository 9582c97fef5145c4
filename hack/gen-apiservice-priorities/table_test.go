// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadPriorities(t *testing.T) {
	const table = `package p
var x = merge(y(), map[schema.GroupVersion]q.Priority{
	{Group: "", Version: "v1"}: {Group: 18000, Version: 1},
	{Group: "apps", Version: "v1"}: {Group: 17800, Version: 15},
})`
	tests := map[string]struct {
		source string
		want   map[groupVersion]priority
	}{
		"a map inside an expression is found": {
			source: table,
			want:   map[groupVersion]priority{{"", "v1"}: {18000, 1}, {"apps", "v1"}: {17800, 15}},
		},
		"a file without a table is an error": {source: `package p; var x = map[string]int{"a": 1}`},
		"an entry that is computed is an error": {source: `package p
var x = map[schema.GroupVersion]Priority{{Group: "", Version: "v1"}: {Group: base, Version: 1}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "source.go")
			require.NoError(t, os.WriteFile(path, []byte(test.source), 0o600))
			got := map[groupVersion]priority{}
			err := readPriorities(path, got)
			require.Equal(t, test.want == nil, err != nil, "error = %v", err)
			if test.want != nil && !maps.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
