// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// FuzzDocument merges two arbitrary documents of extensions, one after the other. Groups of core must not change, and the first document must be gone.
func FuzzDocument(f *testing.F) {
	for _, group := range []apidiscoveryv2.APIGroupDiscovery{group("example.com", "v1", "v2"), group("apps", "v1"), group("", "v1"), group("apps", "v2", "")} {
		list := apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{group, group}}
		list.Kind = "APIGroupDiscoveryList"
		document, err := json.Marshal(list)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(document, []byte(`{"kind":"APIGroupDiscoveryList","items":[{}]}`))
	}
	pki := newTrust(f)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		merged := discoveryendpoint.NewResourceManager("apis")
		core, extensions := sourceOf(newBackend(t, upstream.Core, pki), merged), sourceOf(newBackend(t, upstream.Extensions, pki), merged)
		core.merge(&apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{group("apps", "v1"), group("batch", "v1")}})
		before := list(t, merged)
		for _, document := range [][]byte{first, second} {
			decoded, err := decode(bytes.NewReader(document))
			if err != nil {
				return
			}
			extensions.merge(decoded)
			now := list(t, merged)
			for gv, want := range before {
				require.Equal(t, want, now[gv], "%s differs from the document of core", gv)
			}
		}
		extensions.merge(&apidiscoveryv2.APIGroupDiscoveryList{})
		require.Equal(t, before, list(t, merged))
	})
}
