// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"k8s.io/apimachinery/pkg/runtime/schema"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// FuzzMessages receives arbitrary messages of two replicas. The result must be the union of the last message of each replica that is not lost.
func FuzzMessages(f *testing.F) {
	seed := func(messages ...*backendv1.WatchResponse) {
		var encoded [2][]byte
		for i, message := range messages {
			data, err := proto.Marshal(message)
			if err != nil {
				f.Fatal(err)
			}
			encoded[i] = data
		}
		f.Add(encoded[0], encoded[1])
	}
	catalog := &backendv1.Catalog{
		GroupVersions:   []*backendv1.GroupVersion{{Group: "example.com", Version: "v1"}, {Group: "apps", Version: "v1"}},
		DiscoveryDigest: "a", ConversionWebhooks: []string{"/convert"},
	}
	seed(&backendv1.WatchResponse{Phase: serving, Catalog: catalog}, &backendv1.WatchResponse{Phase: draining})
	seed(&backendv1.WatchResponse{Phase: serving, Catalog: &backendv1.Catalog{GroupVersions: []*backendv1.GroupVersion{
		{Group: "example.com", Version: "v1", LongRunning: []string{"books/tail", "books"}},
	}}}, &backendv1.WatchResponse{Phase: serving, Catalog: catalog})
	seed(&backendv1.WatchResponse{Established: []*backendv1.Established{{Group: "a", Resource: "b", Uid: "c"}}}, &backendv1.WatchResponse{
		Settings: &backendv1.Settings{BinaryVersion: "x", FeatureGates: map[string]bool{"A": true}},
	})
	seed(&backendv1.WatchResponse{Settings: &backendv1.Settings{Configuration: &backendv1.Configuration{
		Encryption: map[string]string{"secrets": "aescbc:a#1a2b3c4d,identity", "*.*": ""}, Audit: "1a2b3c4d to log", Admission: map[string]string{"A": "on"},
	}}}, &backendv1.WatchResponse{Settings: &backendv1.Settings{Configuration: &backendv1.Configuration{Encryption: map[string]string{"secrets": "#,"}}}})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var received []schema.GroupVersion
		var lasting map[schema.GroupVersionResource]bool
		b := &backend{draining: map[string]bool{}, serves: map[string]bool{}}
		firsts := NewFirstReplicas()
		follower := New(Config{
			Backend: b, FirstReplicas: firsts, OnDocuments: func() {}, Settings: &backendv1.Settings{},
			Comparison:    NewComparison(&backendv1.Configuration{Audit: "off"}, func(string) bool { return false }),
			OnServed:      func(served []schema.GroupVersion) { received = served },
			OnLongRunning: func(subresources map[schema.GroupVersionResource]bool) { lasting = subresources },
		})
		replicas := map[string]*replica{"a": {}, "b": {}}
		want := map[schema.GroupVersion]bool{}
		serve := 0
		for address, data := range map[string][]byte{"a": first, "b": second} {
			message := &backendv1.WatchResponse{}
			if proto.Unmarshal(data, message) != nil {
				return
			}
			follower.add(address, replicas[address])
			follower.handle(address, replicas[address], message)
			for _, gv := range message.GetCatalog().GetGroupVersions() {
				want[schema.GroupVersion{Group: gv.GetGroup(), Version: gv.GetVersion()}] = true
			}
			require.Equal(t, message.GetPhase() == draining, b.draining[address])
			if phase := message.GetPhase(); phase == serving || phase == draining {
				serve++
			}
			for _, path := range message.GetCatalog().GetConversionWebhooks() {
				calls, reported := follower.CallsWebhookAt(path)
				require.True(t, calls && reported)
			}
		}
		for gv := range want {
			require.True(t, slices.Contains(received, gv) || serve == 1, "%s", gv)
		}
		for _, gv := range received {
			require.True(t, want[gv])
		}
		for gv, at := range b.partly {
			require.True(t, want[gv] && serve == 2 && len(at) == 1, "%s is at %v", gv, at)
		}
		for gvr := range lasting {
			require.True(t, want[gvr.GroupVersion()] && strings.Count(gvr.Resource, "/") == 1, "%s", gvr)
		}
		_ = follower.Agree() // both results are possible
		for address, r := range replicas {
			follower.remove(address, r)
		}
		calls, reported := follower.CallsWebhookAt("/convert")
		require.False(t, calls || reported)
	})
}

func TestWhatAReplicaClaimsToHaveIsBounded(t *testing.T) {
	firsts := NewFirstReplicas()
	for i := range 3 {
		var claims []*backendv1.Established
		for j := range maxFirst {
			claims = append(claims, &backendv1.Established{Group: fmt.Sprint(i), Resource: fmt.Sprint(j), Uid: "uid"})
		}
		firsts.note("a", claims)
	}
	require.Len(t, firsts.byResource, maxFirst)
}
