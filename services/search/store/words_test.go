// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// TestTextsWithEscapesAreFound has a cluster that writes JSON in another way than Kubernetes does.
func TestTextsWithEscapesAreFound(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		put(t, s, "east", "pods", "shop", "a", "", `"spec": {"containers": [{"image": "example.com\/N\u0047inx:1"}], "serviceAccountName": "\u0077eb"}`)
		put(t, s, "east", "pods", "shop", "b", "", `"spec": {"containers": [{"image": "example.com/nginx:1"}], "serviceAccountName": "web"}`)
		put(t, s, "east", "pods", "shop", "c", "", `"spec": {"containers": [{"image": "busybox"}], "serviceAccountName": "webs"}`)
		put(t, s, "east", "serviceaccounts", "shop", "web", "", "")
		for _, word := range []string{"example.com/ngi", "nginx", "com/n"} {
			got, _ := names(t, s, query.Query{Words: []string{word}}, pods)
			assert.Equal(t, []string{"east/shop/a", "east/shop/b"}, got, word)
		}
		got, _ := related(t, s, nil, "east", "serviceaccounts", "shop", "web")
		assert.Equal(t, []string{"ServiceAccount Incoming 1 pods shop/a", "ServiceAccount Incoming 1 pods shop/b"}, got)
	})
}
