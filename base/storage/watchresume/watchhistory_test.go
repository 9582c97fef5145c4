// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watchresume_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/base/storage/watchresume"
)

const prefix = "/pods/"

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme)
}()

// replica returns the storage of a replica that was just started.
func replica(t *testing.T, etcd *clientv3.Client) storage.Interface {
	t.Helper()
	codec := codecs.LegacyCodec(examplev1.SchemeGroupVersion)
	config := storagebackend.NewDefaultConfig("/registry", codec)
	config.Transport.ServerList = etcd.Endpoints()
	config.CompactionInterval = 0
	clients := &etcdclient.Clients{}
	decorate := watchresume.Decorate(registry.StorageWithCacher(), clients.NewStorage)
	made, destroy, err := decorate(
		config.ForResource(schema.GroupResource{Group: example.GroupName, Resource: "pods"}),
		prefix,
		func(object runtime.Object) (string, error) { return prefix + object.(*example.Pod).Name, nil },
		func() runtime.Object { return &example.Pod{} },
		func() runtime.Object { return &example.PodList{} },
		func(object runtime.Object) (labels.Set, fields.Set, error) {
			pod := object.(*example.Pod)
			return pod.Labels, fields.Set{"metadata.name": pod.Name}, nil
		},
		nil, nil)
	require.NoError(t, err)
	t.Cleanup(destroy)
	return made
}

// create creates a pod and returns its resourceVersion.
func create(t *testing.T, in storage.Interface, name string, podLabels map[string]string) string {
	t.Helper()
	out := &example.Pod{}
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: podLabels}}
	require.NoError(t, in.Create(t.Context(), prefix+name, pod, out, 0))
	return out.ResourceVersion
}

func optionsAt(resourceVersion string) storage.ListOptions {
	return storage.ListOptions{ResourceVersion: resourceVersion, Recursive: true, Predicate: storage.Everything}
}

// events reads n events, as their types and the names of their objects.
func events(t *testing.T, watching watch.Interface, n int) []string {
	t.Helper()
	var got []string
	timeout := time.After(30 * time.Second)
	for len(got) < n {
		select {
		case event, ok := <-watching.ResultChan():
			if !ok {
				t.Fatalf("the watch ended after %v", got)
			}
			if event.Type == watch.Error {
				t.Fatalf("error event after %v: %v", got, event.Object)
			}
			pod, err := podOf(event.Object)
			require.NoError(t, err)
			got = append(got, string(event.Type)+" "+pod.Name)
		case <-timeout:
			t.Fatalf("only %v", got)
		}
	}
	return got
}

func podOf(object runtime.Object) (*example.Pod, error) {
	if cached, ok := object.(runtime.CacheableObject); ok {
		object = cached.GetObject()
	}
	pod, ok := object.(*example.Pod)
	if !ok {
		return nil, fmt.Errorf("%T is not a pod", object)
	}
	return pod, nil
}

func TestWatchOlderThanTheCache(t *testing.T) {
	etcd := testserver.RunEtcd(t, nil)
	old := replica(t, etcd.Client)
	before := create(t, old, "a", nil)
	create(t, old, "b", map[string]string{"colour": "red"})
	create(t, old, "c", nil)
	if err := old.Delete(t.Context(), prefix+"a", &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	red := labels.SelectorFromSet(labels.Set{"colour": "red"})

	for name, test := range map[string]struct {
		key  string
		opts func() storage.ListOptions
		want []string
	}{
		"of all": {
			key:  prefix,
			opts: func() storage.ListOptions { return optionsAt(before) },
			want: []string{"ADDED b", "ADDED c", "DELETED a", "ADDED d", "ADDED e"},
		},
		"by label": {
			key: prefix,
			opts: func() storage.ListOptions {
				opts := optionsAt(before)
				opts.Predicate = storage.SelectionPredicate{Label: red, Field: fields.Everything(), GetAttrs: attributes}
				return opts
			},
			want: []string{"ADDED b", "ADDED e"},
		},
		"of one": {
			key: prefix + "a",
			opts: func() storage.ListOptions {
				opts := optionsAt(before)
				opts.Recursive = false
				return opts
			},
			want: []string{"DELETED a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			young := replica(t, etcd.Client)
			// Not before its cache is ready: the watch would begin with the events that follow.
			if err := young.GetList(t.Context(), prefix, storage.ListOptions{ResourceVersion: "0", Recursive: true, Predicate: storage.Everything}, &example.PodList{}); err != nil {
				t.Fatal(err)
			}
			watching, err := young.Watch(t.Context(), test.key, test.opts())
			require.NoError(t, err)
			defer watching.Stop()
			create(t, old, "d", nil)
			create(t, old, "e", map[string]string{"colour": "red"})
			if got := events(t, watching, len(test.want)); !slices.Equal(got, test.want) {
				t.Errorf("got  %v\nwant %v", got, test.want)
			}
			for _, pod := range []string{"d", "e"} {
				if err := old.Delete(t.Context(), prefix+pod, &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	return object.(*example.Pod).Labels, nil, nil
}

func TestManyWatchesResumeWhileObjectsChange(t *testing.T) {
	const (
		written  = 400
		watchers = 100
	)
	etcd := testserver.RunEtcd(t, nil)
	old := replica(t, etcd.Client)
	versions := make([]string, 0, written)
	for i := range written / 2 {
		versions = append(versions, create(t, old, fmt.Sprintf("pod-%03d", i), nil))
	}
	young := replica(t, etcd.Client)

	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for i := written / 2; i < written; i++ {
			create(t, old, fmt.Sprintf("pod-%03d", i), nil)
		}
	})
	for i := range watchers {
		wg.Go(func() {
			version, next := versions[i], i+1
			// A watch that does not keep up ends, and goes on in another.
			for next < written && !t.Failed() {
				watching, err := young.Watch(t.Context(), prefix, optionsAt(version))
				if err != nil {
					t.Error(err)
					return
				}
				for event := range watching.ResultChan() {
					pod, err := podOf(event.Object)
					if err != nil || event.Type != watch.Added || pod.Name != fmt.Sprintf("pod-%03d", next) {
						t.Errorf("watch from %d: got %s %v (%v), want pod-%03d", i, event.Type, event.Object, err, next)
						break
					}
					version = pod.ResourceVersion
					if next++; next == written {
						break
					}
				}
				watching.Stop()
			}
		})
	}
}

func TestSlowReadersKeepNobodyWaiting(t *testing.T) {
	etcd := testserver.RunEtcd(t, nil)
	old := replica(t, etcd.Client)
	before := create(t, old, "a", nil)
	want := []string{"ADDED b", "ADDED c", "ADDED d", "ADDED e"}
	for _, name := range []string{"b", "c", "d"} {
		create(t, old, name, nil)
	}
	young := replica(t, etcd.Client)
	begin := func() watch.Interface {
		watching, err := young.Watch(t.Context(), prefix, optionsAt(before))
		require.NoError(t, err)
		t.Cleanup(watching.Stop)
		return watching
	}
	// These are more than are read from etcd at a time.
	var slow []watch.Interface
	for range 100 {
		slow = append(slow, begin())
	}
	create(t, old, "e", nil)
	for range 3 {
		if got := events(t, begin(), len(want)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	for i, watching := range slow[:10] {
		if got := events(t, watching, len(want)); !slices.Equal(got, want) {
			t.Errorf("slow reader %d got %v, want %v", i, got, want)
		}
	}
}

func TestASlowReaderGetsAllEventsOfATransaction(t *testing.T) {
	etcd := testserver.RunEtcd(t, nil)
	old := replica(t, etcd.Client)
	before := create(t, old, "a", nil)
	value, err := etcd.Client.Get(t.Context(), "/registry"+prefix+"a")
	require.NoError(t, err)
	var want []string
	for _, names := range []string{"bcd", "e", "fg"} {
		var puts []clientv3.Op
		for _, name := range strings.Split(names, "") {
			pod := strings.Replace(string(value.Kvs[0].Value), `"name":"a"`, `"name":"`+name+`"`, 1)
			puts = append(puts, clientv3.OpPut("/registry"+prefix+name, pod))
			want = append(want, "ADDED "+name)
		}
		if _, err := etcd.Client.Txn(t.Context()).Then(puts...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	watching, err := replica(t, etcd.Client).Watch(t.Context(), prefix, optionsAt(before))
	require.NoError(t, err)
	defer watching.Stop()
	for len(want) > 0 {
		time.Sleep(600 * time.Millisecond) // Slow is who takes longer than a turn waits. Whether this is slow enough changes no result.
		n := min(2, len(want))
		if got := events(t, watching, n); !slices.Equal(got, want[:n]) {
			t.Errorf("got %v, want %v", got, want[:n])
		}
		want = want[n:]
	}
}

func TestWatchThatTheHistoryCannotServeMustListAgain(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, etcd *clientv3.Client, last int64){
		"older than the history": func(t *testing.T, etcd *clientv3.Client, last int64) {
			_, err := etcd.Compact(t.Context(), last)
			require.NoError(t, err)
		},
		"with an event that cannot be read": func(t *testing.T, etcd *clientv3.Client, _ int64) {
			const key = "/registry" + prefix + "broken"
			_, err := etcd.Put(t.Context(), key, "no pod")
			require.NoError(t, err)
			_, err = etcd.Delete(t.Context(), key) // else no cache is ever filled
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := testserver.RunEtcd(t, nil)
			old := replica(t, etcd.Client)
			before := create(t, old, "a", nil)
			create(t, old, "b", nil)
			last, err := strconv.ParseInt(create(t, old, "c", nil), 10, 64)
			require.NoError(t, err)
			spoil(t, etcd.Client, last)
			watching, err := replica(t, etcd.Client).Watch(t.Context(), prefix, optionsAt(before))
			require.NoError(t, err)
			defer watching.Stop()
			event := <-watching.ResultChan()
			for event.Type == watch.Added { // what came before can be read
				event = <-watching.ResultChan()
			}
			status, ok := event.Object.(*metav1.Status)
			if !ok || event.Type != watch.Error || status.Code != http.StatusGone || !strings.Contains(status.Message, "too old resource version") {
				t.Errorf("got %s %v, want what kube-apiserver's cache says", event.Type, event.Object)
			}
			if event, more := <-watching.ResultChan(); more {
				t.Errorf("then %v", event)
			}
		})
	}
}

func TestStoppedWatchEnds(t *testing.T) {
	etcd := testserver.RunEtcd(t, nil)
	old := replica(t, etcd.Client)
	before := create(t, old, "a", nil)
	create(t, old, "b", nil)
	for name, stop := range map[string]func(watch.Interface, context.CancelFunc){
		"by its context": func(_ watch.Interface, cancel context.CancelFunc) { cancel() },
		"by Stop":        func(watching watch.Interface, _ context.CancelFunc) { watching.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			watching, err := replica(t, etcd.Client).Watch(ctx, prefix, optionsAt(before))
			require.NoError(t, err)
			stop(watching, cancel)
			for range watching.ResultChan() {
			}
		})
	}
}

func TestRequestsWaitForACacheThatWasJustMade(t *testing.T) {
	etcd := testserver.RunEtcd(t, nil)
	create(t, replica(t, etcd.Client), "a", nil)
	for range 10 {
		list := &example.PodList{}
		if err := replica(t, etcd.Client).GetList(t.Context(), prefix, optionsAt("0"), list); err != nil || len(list.Items) != 1 {
			t.Errorf("list: %d items, %v", len(list.Items), err)
		}
		watching, err := replica(t, etcd.Client).Watch(t.Context(), prefix, optionsAt("0"))
		require.NoError(t, err)
		events(t, watching, 1)
		watching.Stop()
	}
}
