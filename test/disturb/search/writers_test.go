// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// writtenKind is a kind of objects that writers change.
type writtenKind struct {
	resource schema.GroupVersionResource
	kind     string
	// content is what an object needs besides its metadata.
	content map[string]any
}

var (
	selector = map[string]any{"matchLabels": map[string]any{"app": "web"}}
	pods     = map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}, "spec": map[string]any{
		"containers": []any{map[string]any{"name": "c", "image": "example.com/c"}},
	}}
	written = []writtenKind{
		{copied[0], "ConfigMap", map[string]any{}},
		{copied[2], "PodTemplate", map[string]any{"template": pods}},
		{copied[4], "Deployment", map[string]any{"spec": map[string]any{"selector": selector, "template": pods}}},
		{copied[5], "ReplicaSet", map[string]any{"spec": map[string]any{"selector": selector, "template": pods}}},
		{copied[6], "Boat", map[string]any{"spec": map[string]any{"length": 12.5, "name": "Æ \"x\" <&>"}}},
		{copied[8], "RoleBinding", map[string]any{"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}},
		{schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event", map[string]any{
			"involvedObject": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "configmap-0"}, "reason": "Tried",
		}},
	}
)

const (
	// namesOfKind is how many objects a kind has at most, and longestPause bounds the pause of a writer between two changes.
	namesOfKind  = 40
	longestPause = 80 * time.Millisecond
)

// writers change objects of all clusters.
type writers struct {
	// turn is held by each change, and by a check that needs the clusters to be quiet.
	turn                               sync.RWMutex
	running                            sync.WaitGroup
	created, updated, deleted, refused atomic.Int64
}

// write changes all clusters until the context ends.
func (s *scene) write(ctx context.Context, seed uint64) *writers {
	w := &writers{}
	for name, m := range s.members {
		one := &writer{writers: w, member: m, random: rand.New(rand.NewPCG(seed, uint64(len(name))))}
		w.running.Go(func() { one.run(ctx) })
	}
	return w
}

func (w *writers) pause()  { w.turn.Lock() }
func (w *writers) resume() { w.turn.Unlock() }
func (w *writers) wait()   { w.running.Wait() }

func (w *writers) String() string {
	return fmt.Sprintf("changes that clusters took: %d created, %d updated, %d deleted; %d were refused or not answered",
		w.created.Load(), w.updated.Load(), w.deleted.Load(), w.refused.Load())
}

// writer changes objects of one cluster.
type writer struct {
	*writers
	*member
	random *rand.Rand
	// uids are those of some objects that there were.
	uids []string
}

func (w *writer) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		w.turn.RLock()
		w.change(ctx, n)
		w.turn.RUnlock()
		sleep(ctx, time.Duration(w.random.Int64N(int64(longestPause))))
	}
}

// change creates, updates or deletes an object, unless the cluster is away.
func (w *writer) change(ctx context.Context, n int) {
	k := written[w.random.IntN(len(written))]
	name := fmt.Sprint(strings.ToLower(k.kind), "-", w.random.IntN(namesOfKind))
	objects := w.client.Resource(k.resource).Namespace("default")
	counter := &w.deleted
	var err error
	if w.random.IntN(4) == 0 && k.kind != "Event" { // search keeps events that are gone
		err = objects.Delete(ctx, name, metav1.DeleteOptions{})
	} else {
		var done *unstructured.Unstructured
		counter = &w.updated
		changed := w.content(k, n)
		text, _ := json.Marshal(changed) // it has strings
		if done, err = objects.Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{}); apierrors.IsNotFound(err) {
			counter = &w.created
			done, err = objects.Create(ctx, w.new(k, name, changed), metav1.CreateOptions{})
		}
		if err == nil {
			w.remember(string(done.GetUID()))
		}
	}
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		counter = &w.refused
	}
	counter.Add(1)
}

// remember keeps the UID of a possible owner.
func (w *writer) remember(uid string) {
	const most = 100
	if len(w.uids) < most {
		w.uids = append(w.uids, uid)
		return
	}
	w.uids[w.random.IntN(most)] = uid
}

// content returns what a change sets. A label that is nil goes.
func (w *writer) content(k writtenKind, n int) map[string]any {
	owners := []any{}
	for i := range w.random.IntN(3) {
		if len(w.uids) > 0 && k.kind != "Event" {
			owners = append(owners, map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": fmt.Sprint("owner-", i), "uid": w.uids[w.random.IntN(len(w.uids))]})
		}
	}
	labels := map[string]any{"turn": fmt.Sprint(n % 5), "team": nil}
	if w.random.IntN(2) == 0 {
		labels["team"] = "red"
	}
	changed := map[string]any{"metadata": map[string]any{"labels": labels, "ownerReferences": owners, "annotations": map[string]any{"example.com/n": fmt.Sprint(n)}}}
	switch k.kind {
	case "ConfigMap":
		changed["data"] = map[string]any{"text": strings.Repeat("é\n", w.random.IntN(2000))}
	case "Event":
		changed["count"] = int64(n)
	}
	return changed
}

// new returns an object that does not exist yet.
func (w *writer) new(k writtenKind, name string, changed map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range k.content {
		object.Object[field] = value
	}
	for field, value := range changed {
		object.Object[field] = value
	}
	apiVersion, kind := k.resource.GroupVersion().WithKind(k.kind).ToAPIVersionAndKind()
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetName(name)
	labels, _, _ := unstructured.NestedMap(object.Object, "metadata", "labels")
	if labels["team"] == nil {
		unstructured.RemoveNestedField(object.Object, "metadata", "labels", "team")
	}
	return object
}
