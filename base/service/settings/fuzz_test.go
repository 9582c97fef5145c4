// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// FuzzDifferences compares any settings that a service may report. All agree with themselves, and two disagree about as much from either side.
func FuzzDifferences(f *testing.F) {
	var seeds [][]byte
	for _, settings := range []*backendv1.Settings{
		{BinaryVersion: "1.36.3", EmulationVersion: "1.35", FeatureGates: map[string]bool{"A": true}},
		{BinaryVersion: "1.36.2", EmulationVersion: "1.36", RuntimeConfig: map[string]string{"api/all": "true"}},
		{BinaryVersion: "not a version"},
	} {
		seed, err := proto.Marshal(settings)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, seed)
	}
	f.Add(seeds[0], seeds[1])
	f.Add(seeds[1], seeds[2])
	f.Fuzz(func(t *testing.T, first, second []byte) {
		a, b := &backendv1.Settings{}, &backendv1.Settings{}
		if proto.Unmarshal(first, a) != nil || proto.Unmarshal(second, b) != nil {
			return
		}
		require.Empty(t, Differences(a, a))
		require.Len(t, Differences(b, a), len(Differences(a, b)))
	})
}
