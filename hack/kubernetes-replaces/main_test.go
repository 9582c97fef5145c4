// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEdits(t *testing.T) {
	api := module{"k8s.io/api", "v0.36.3"}
	staging := func(path string) replacement {
		return replacement{Old: module{Path: path}, New: module{Path: "./staging/src/" + path}}
	}
	tests := map[string]struct {
		ours []replacement
		want []string
	}{
		"a complete list needs none": {
			ours: []replacement{{module{Path: "k8s.io/api"}, api}},
		},
		"a missing line is added": {
			want: []string{"-replace=k8s.io/api=k8s.io/api@v0.36.3"},
		},
		"an old version is replaced": {
			ours: []replacement{{module{Path: "k8s.io/api"}, module{"k8s.io/api", "v0.36.2"}}},
			want: []string{"-replace=k8s.io/api=k8s.io/api@v0.36.3"},
		},
		"a module that Kubernetes dropped goes, another's stays": {
			ours: []replacement{
				{module{Path: "k8s.io/api"}, api},
				{module{Path: "k8s.io/gone"}, module{"k8s.io/gone", "v0.36.3"}},
				{module{Path: "example.com/patched"}, module{"example.com/fork", "v1.0.0"}},
			},
			want: []string{"-dropreplace=k8s.io/gone"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, replaceEdits(test.ours, []replacement{staging("k8s.io/api")}, "v0.36.3"), "edits")
		})
	}
}
