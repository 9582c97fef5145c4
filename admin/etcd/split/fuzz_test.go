// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
)

// FuzzRecord reads whatever the target has as the record of an earlier run. All that the next run may delete from the source is extensions'.
func FuzzRecord(f *testing.F) {
	for _, names := range [][]string{
		{definitions, "widgets.example.com", "gateways.gateway.networking.k8s.io"},
		{"secrets"}, {"secrets."}, {"apiservices.apiregistration.k8s.io"}, {"specs.services"}, {"..a"}, {"a/../secrets.example.com"},
	} {
		r := record{Source: 1, Done: true, Deleting: true, Revision: 7}
		for _, name := range names {
			r.Resources = append(r.Resources, Resource{Name: name, Objects: 1, Checksum: "0a"})
		}
		seed, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Add([]byte(`{"resources":null}`))
	roles := access.Roles("/registry", nil)
	owned := roles[slices.IndexFunc(roles, func(r access.Role) bool { return r.Name == access.Extensions })].Ranges
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord(data)
		if err != nil {
			return
		}
		s := &split{Options: Options{Prefix: "/registry"}}
		for _, resource := range r.Resources {
			first := s.resource(resource.Name).prefix
			last := first + "\xff"
			require.True(t, slices.ContainsFunc(owned, func(r access.Range) bool { return r.Key <= first && last < r.End }), "%q is at %q", resource.Name, first)
		}
		again, err := json.Marshal(r)
		require.NoError(t, err)
		same, err := parseRecord(again)
		require.NoError(t, err)
		require.Equal(t, r, same)
	})
}
