// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

var databases *storetest.Databases

func TestMain(m *testing.M) {
	var err error
	if databases, err = storetest.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	databases.Stop()
	os.Exit(code)
}

// each runs a test with an empty store on each kind of database.
func each(t *testing.T, test func(t *testing.T, s *Store)) {
	databases.Each(t, func(t *testing.T, url string) { test(t, opened(t, url)) })
}

func opened(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(url)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Migrate(context.Background()))
	return s
}

var (
	pods        = streams.Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "Pod", Namespaced: true}
	nodes       = streams.Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Name: "Node"}
	replicaSets = streams.Kind{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, Name: "ReplicaSet", Namespaced: true}
	deployments = streams.Kind{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Name: "Deployment", Namespaced: true}
)

var (
	jobs        = streams.Kind{GroupVersionResource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Name: "Job", Namespaced: true}
	eventsKind  = streams.Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "events"}, Name: "Event", Namespaced: true}
	controllers = streams.Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "replicationcontrollers"}, Name: "ReplicationController", Namespaced: true}
)

func openStream(t testing.TB, s *Store, cluster string, kind streams.Kind) *streams.Stream {
	t.Helper()
	stream, err := s.OpenStream(context.Background(), cluster, kind)
	require.NoError(t, err)
	return stream
}

// names returns "CLUSTER/NAMESPACE/NAME" of what a query finds.
func names(t testing.TB, s *Store, q query.Query, kinds ...streams.Kind) (names []string, page Page) {
	t.Helper()
	var patterns []schema.GroupVersionResource
	for _, kind := range kinds {
		patterns = append(patterns, kind.GroupVersionResource)
	}
	page, err := s.List(context.Background(), patterns, &q, func(f Found) error {
		names = append(names, f.Cluster+"/"+nameIn(t, f.JSON))
		return nil
	})
	require.NoError(t, err)
	return names, page
}
