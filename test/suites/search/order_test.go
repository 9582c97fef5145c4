// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/test/framework"
)

// history is all that a cluster had: the revisions of the states of each config map, by name.
type history struct {
	mu     sync.Mutex
	states map[string]map[int64]bool
}

// follow reads the history from the cluster's etcd, which nothing disturbs.
func follow(ctx context.Context, t *testing.T, url string) *history {
	t.Helper()
	const prefix = "/registry/configmaps/default/"
	h := &history{states: map[string]map[int64]bool{}}
	etcd := framework.Etcd(t, url)
	now, err := etcd.Get(ctx, prefix, clientv3.WithPrefix())
	require.NoError(t, err)
	for _, pair := range now.Kvs {
		h.add(strings.TrimPrefix(string(pair.Key), prefix), pair.ModRevision)
	}
	changes := etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(now.Header.Revision+1))
	go func() {
		for answer := range changes {
			for _, event := range answer.Events {
				if event.Type == clientv3.EventTypePut {
					h.add(strings.TrimPrefix(string(event.Kv.Key), prefix), event.Kv.ModRevision)
				}
			}
		}
	}()
	return h
}

func (h *history) add(name string, revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.states[name] == nil {
		h.states[name] = map[int64]bool{}
	}
	h.states[name][revision] = true
}

func (h *history) has(name string, revision int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.states[name][revision]
}

// sighting is a state of an object that a follower received.
type sighting struct {
	cluster, name string
	// inCluster is its resourceVersion in the cluster, and inSearch that of search.
	inCluster, inSearch int64
}

// sightings are those of a follower, in their order.
type sightings struct {
	mu  sync.Mutex
	all []sighting
}

func (s *sightings) add(object any) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(err) // it is a config map
	}
	annotations := accessor.GetAnnotations()
	one := sighting{cluster: annotations[v1beta1.ClusterAnnotation], name: accessor.GetName()}
	one.inCluster, _ = strconv.ParseInt(annotations[v1beta1.ResourceVersionAnnotation], 10, 64) // judge refuses 0
	one.inSearch, _ = strconv.ParseInt(accessor.GetResourceVersion(), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

// judge returns an error unless a follower received states that the clusters had, and those of each object in their order. A list may have one again.
func (s *sightings) judge(histories map[string]*history) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := map[[2]string]sighting{}
	for _, one := range s.all {
		key := [2]string{one.cluster, one.name}
		before := last[key]
		if histories[one.cluster] == nil || !histories[one.cluster].has(one.name, one.inCluster) {
			return fmt.Errorf("no cluster had the state %+v", one)
		}
		if one.inCluster < before.inCluster || one.inSearch < before.inSearch || (one.inCluster == before.inCluster) != (one.inSearch == before.inSearch) {
			return fmt.Errorf("an object has gone back: %+v after %+v", one, before)
		}
		last[key] = one
	}
	if len(last) == 0 {
		return errors.New("the follower received nothing")
	}
	return nil
}

func (s *sightings) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	states, objects := map[sighting]bool{}, map[[2]string]bool{}
	for _, one := range s.all {
		states[one], objects[[2]string{one.cluster, one.name}] = true, true
	}
	return fmt.Sprintf("%d states of %d objects in their order", len(states), len(objects))
}

// sighted records what a reflector stores.
type sighted struct {
	cache.Store
	saw *sightings
}

func (s sighted) Add(object any) error {
	s.saw.add(object)
	return s.Store.Add(object)
}

func (s sighted) Update(object any) error {
	s.saw.add(object)
	return s.Store.Update(object)
}

func (s sighted) Replace(objects []any, resourceVersion string) error {
	for _, object := range objects {
		s.saw.add(object)
	}
	return s.Store.Replace(objects, resourceVersion)
}
