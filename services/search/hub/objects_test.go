// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tripod-k8s/tripod/services/search/parties"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func pod(name string, bytes int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": "a"}, "spec": strings.Repeat("x", bytes),
	}}
}

func TestAResourceWithTooMuchIsNotKept(t *testing.T) {
	for name, size := range map[string]int{"objects": 1, "bytes": 9000} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{pods: "PodList"})
			changed := make(chan struct{}, 1)
			o := New(client, StandardMemory(), func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
			o.Bounds = Bounds{Objects: 3, Bytes: 10_000}
			defer o.Stop()
			until := func(holds func(error) bool) {
				require.Eventually(t, func() bool {
					_, err := o.List(pods)
					return holds(err)
				}, time.Minute, 5*time.Millisecond)
			}
			until(func(err error) bool { return err == nil })
			tooMany := func(err error) bool { return err != nil && strings.Contains(err.Error(), ErrTooMany.Error()) }
			n := 0
			until(func(err error) bool { // by a watch. The fake client's misses what is written before it has begun
				_, failed := client.Resource(pods).Namespace("a").Create(t.Context(), pod(fmt.Sprint(n), size), metav1.CreateOptions{})
				require.NoError(t, failed)
				n++
				return tooMany(err)
			})
			o.Stop()
			until(tooMany) // its first list, too
			all, err := o.List(pods)
			require.ErrorIs(t, err, ErrTooMany)
			require.ErrorIs(t, err, ErrUnread)
			assert.Empty(t, all)
			for _, f := range o.followers {
				assert.Empty(t, f.informer.GetStore().List())
			}
		})
	}
}

// TestWhatTakesMostGivesWay holds whichever is known first, and when one grows.
func TestWhatTakesMostGivesWay(t *testing.T) {
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	secret := func(name string, bytes int) *unstructured.Unstructured {
		object := pod(name, bytes)
		object.SetKind("Secret")
		return object
	}
	start := func(t *testing.T, objects ...runtime.Object) (*Objects, func(of schema.GroupVersionResource, holds func(error) bool), dynamic.Interface) {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{pods: "PodList", secrets: "SecretList"}, objects...)
		o := New(client, NewMemory(20_000, 20_000), func() {})
		t.Cleanup(o.Stop)
		return o, func(of schema.GroupVersionResource, holds func(error) bool) {
			require.Eventually(t, func() bool {
				_, err := o.List(of)
				return holds(err)
			}, time.Minute, 5*time.Millisecond)
		}, client
	}
	known := func(err error) bool { return err == nil }
	tooMany := func(err error) bool { return err != nil && strings.Contains(err.Error(), ErrTooMany.Error()) }

	t.Run("known first", func(t *testing.T) {
		o, until, _ := start(t, pod("small", 4000), secret("large", 18_000))
		until(secrets, known)
		until(pods, known)
		until(secrets, tooMany)
		_, err := o.List(pods)
		require.NoError(t, err)
	})
	t.Run("read later", func(t *testing.T) {
		o, until, _ := start(t, pod("first", 12_000), secret("second", 14_000))
		until(pods, known)
		until(secrets, tooMany)
		_, err := o.List(pods)
		require.NoError(t, err)
	})
	t.Run("growing", func(t *testing.T) {
		o, until, client := start(t, pod("small", 4000), secret("large", 10_000))
		until(secrets, known)
		until(pods, known)
		n := 0
		until(secrets, func(err error) bool {
			_, failed := client.Resource(secrets).Namespace("a").Create(t.Context(), secret(fmt.Sprint(n), 3000), metav1.CreateOptions{})
			require.NoError(t, failed)
			n++
			return tooMany(err)
		})
		_, err := o.List(pods)
		require.NoError(t, err)
	})
}

// answerByName has a fake client answer with one pod if a list names it. By itself, it answers with all of a namespace.
func answerByName(client *fake.FakeDynamicClient) {
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list := action.(clienttesting.ListActionImpl)
		name, _ := list.GetListRestrictions().Fields.RequiresExactMatch("metadata.name")
		object, err := client.Tracker().Get(pods, list.Namespace, name)
		if err != nil {
			return true, nil, err
		}
		return true, &unstructured.UnstructuredList{
			Object: map[string]any{}, Items: []unstructured.Unstructured{*object.(*unstructured.Unstructured)},
		}, nil
	})
	client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil })
}

// TestPartiesShareWhatIsFollowedByName has one that asks for more than the limit, and later another one.
func TestPartiesShareWhatIsFollowedByName(t *testing.T) {
	var objects []runtime.Object
	for i := range 9 {
		objects = append(objects, pod(fmt.Sprint(i), 1))
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{pods: "PodList"}, objects...)
	answerByName(client)
	o := New(client, StandardMemory(), func() {})
	o.Most = 6
	t.Cleanup(o.Stop)
	follow := func(party string, from, to int) (follows []int) {
		for i := from; i < to; i++ {
			if _, err := o.OneFor(parties.OfCluster(party), pods, "a", fmt.Sprint(i)); !errors.Is(err, ErrTooMany) {
				follows = append(follows, i)
			}
		}
		assert.LessOrEqual(t, len(o.followers), o.Most)
		return follows
	}
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, follow("a", 0, 7))
	o.Sweep()
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, follow("a", 0, 7))
	assert.Len(t, follow("b", 7, 9), 2, "it has fewer")
	for range 3 {
		o.Sweep()
		assert.Equal(t, []int{0, 1, 2, 3}, follow("a", 0, 7))
		assert.Len(t, follow("b", 7, 9), 2)
	}
	o.Sweep()
	assert.Len(t, follow("a", 0, 7), 4)
	o.Sweep()
	assert.Len(t, follow("a", 0, 7), 6, "b wants nothing any more")
	_, err := o.One(pods, "a", "8")
	require.ErrorIs(t, err, ErrUnread, "what is no party's has no bound")
}

// TestManySmallThingsKeepNoPediaClusterFromBeingKnown has the objects of one namespace, each followed by itself as references of policies are, take
// more than all other parties. They give way, and neither PediaClusters nor the objects of another namespace do.
func TestManySmallThingsKeepNoPediaClusterFromBeingKnown(t *testing.T) {
	clusters := schema.GroupVersionResource{Group: "cluster.clusterpedia.io", Version: "v1alpha2", Resource: "pediaclusters"}
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.clusterpedia.io/v1alpha2", "kind": "PediaCluster", "metadata": map[string]any{"name": "east"}, "spec": strings.Repeat("x", 15_000),
	}}
	other := pod("other", 9000)
	other.SetNamespace("b")
	objects := []runtime.Object{cluster, other}
	const references = 10
	for i := range references {
		objects = append(objects, pod(fmt.Sprint(i), 3000))
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{pods: "PodList", clusters: "PediaClusterList"}, objects...)
	answerByName(client)
	o := New(client, NewMemory(20_000, 20_000), func() {})
	t.Cleanup(o.Stop)
	until := func(err func() error, holds func(error) bool) {
		require.Eventually(t, func() bool { return holds(err()) }, time.Minute, 5*time.Millisecond)
	}
	known := func(err error) bool { return err == nil }
	pediaClusters := func() error { _, err := o.List(clusters); return err }
	another := func() error { _, err := o.One(pods, "b", "other"); return err }
	until(pediaClusters, known)
	until(another, known)
	refused := 0
	for i := range references {
		until(func() error { _, err := o.One(pods, "a", fmt.Sprint(i)); return err }, func(err error) bool {
			tooMany := err != nil && strings.Contains(err.Error(), ErrTooMany.Error())
			if tooMany {
				refused++
			}
			return err == nil || tooMany
		})
		require.NoError(t, pediaClusters())
		require.NoError(t, another())
	}
	assert.Positive(t, refused, "they take more than all others")
}

// TestAListThatFailsTakesNoMemory has each list fail after its first page.
func TestAListThatFailsTakesNoMemory(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{pods: "PodList"})
	pages := 0
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if pages++; pages%2 == 0 {
			return true, nil, errors.New("no second page")
		}
		page := &unstructured.UnstructuredList{Object: map[string]any{}, Items: []unstructured.Unstructured{*pod("first", 3000)}}
		page.SetContinue("second")
		return true, page, nil
	})
	o := New(client, NewMemory(20_000, 20_000), func() {})
	t.Cleanup(o.Stop)
	require.Eventually(t, func() bool {
		_, err := o.List(pods)
		return err != nil && strings.Contains(err.Error(), "no second page")
	}, time.Minute, 5*time.Millisecond)
	o.memory.others.mu.Lock()
	defer o.memory.others.mu.Unlock()
	assert.Zero(t, o.memory.others.used)
}

// TestAPartyTakesNothingByNamingWhatAnotherFollows has one that asks for more than the limit name what another one follows, too.
func TestAPartyTakesNothingByNamingWhatAnotherFollows(t *testing.T) {
	var objects []runtime.Object
	for i := range 12 {
		objects = append(objects, pod(fmt.Sprint(i), 1))
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{pods: "PodList"}, objects...)
	answerByName(client)
	o := New(client, StandardMemory(), func() {})
	o.Most = 6
	t.Cleanup(o.Stop)
	follow := func(party string, from, to int) (n int) {
		for i := from; i < to; i++ {
			if _, err := o.OneFor(parties.OfCluster(party), pods, "a", fmt.Sprint(i)); !errors.Is(err, ErrTooMany) {
				n++
			}
		}
		return n
	}
	const first, last = 8, 10 // those of the owner, whose names come last
	for range 3 {
		follow("greedy", 0, 4)
		assert.Equal(t, 2, follow("greedy", first, last), "it asks first")
		require.Equal(t, 2, follow("owner", first, last))
		before := o.followers[target{pods, "a", "8"}]
		require.NotNil(t, before)
		assert.Equal(t, 2, follow("new", 10, 12), "greedy has most")
		assert.Same(t, before, o.followers[target{pods, "a", "8"}], "the owner begins anew with nothing")
		assert.Equal(t, 2, follow("owner", first, last))
		o.Sweep()
	}
	o.Sweep()
	assert.Equal(t, 2, follow("owner", first, last))
	o.Sweep()
	require.Len(t, o.followers, 2)
	assert.Equal(t, map[parties.Party]bool{parties.OfCluster("owner"): false}, o.followers[target{pods, "a", "8"}].sharers)
}
