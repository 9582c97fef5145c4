// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

var (
	alice = &user.DefaultInfo{Name: "alice", Groups: []string{"dev"}}
	pods  = streams.Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "Pod", Namespaced: true}
)

// written has the streams of clusters in a store.
type written struct {
	t testing.TB
	*store.Store
	streams map[string]*streams.Stream
}

func newStore(t testing.TB) *written {
	t.Helper()
	s, err := store.Open(storetest.SQLite(t))
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Migrate(t.Context()))
	return &written{t, s, map[string]*streams.Stream{}}
}

func rbacKind(resource string) streams.Kind {
	return streams.Kind{GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource(resource), Name: resource}
}

// stream opens the stream of a resource of a cluster, and writes that its list is complete.
func (w *written) stream(cluster string, kind streams.Kind) {
	w.t.Helper()
	stream, err := w.OpenStream(w.t.Context(), cluster, kind)
	require.NoError(w.t, err)
	require.NoError(w.t, w.Sweep(w.t.Context(), stream, 0, "1"))
	w.streams[cluster+kind.Resource] = stream
}

func (w *written) put(cluster, resource string, object metav1.Object, deleted bool) {
	w.t.Helper()
	text, err := json.Marshal(object)
	require.NoError(w.t, err)
	change := store.Change{Object: store.Object{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetName(), ResourceVersion: string(text), JSON: text}, Deleted: deleted}
	require.NoError(w.t, w.Write(w.t.Context(), w.streams[cluster+resource], store.Batch{Changes: []store.Change{change}}))
}

// bind lets a group read pods in a namespace of a cluster.
func (w *written) bind(cluster, namespace, group string, deleted bool) {
	w.put(cluster, "rolebindings", &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: group}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: group}},
	}, deleted)
}

// member writes a cluster with a policy of rights, a role and pods.
func (w *written) member(cluster string) {
	w.t.Helper()
	text, err := Policy{}.Encode()
	require.NoError(w.t, err)
	require.NoError(w.t, w.SetRights(w.t.Context(), cluster, text))
	for _, resource := range sets.List(Resources) {
		w.stream(cluster, rbacKind(resource))
	}
	w.stream(cluster, pods)
	w.put(cluster, "clusterroles", &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}, false)
	for _, namespace := range []string{"a", "b"} {
		w.put(cluster, "pods", &metav1.ObjectMeta{Namespace: namespace, Name: "web"}, false)
	}
}

// found returns what a reader finds, and Renew finds, by rights that may be old.
func (w *written) found(r *Rights, v *AccessSet) (names []string, seen *AccessSet) {
	w.t.Helper()
	for {
		names = nil
		_, err := w.For(v.Filter()).List(w.t.Context(), []schema.GroupVersionResource{pods.GroupVersionResource}, &query.Query{}, func(f store.Found) error {
			var m metav1.ObjectMeta
			err := json.Unmarshal(f.JSON, &m)
			names = append(names, fmt.Sprintf("%s/%s/%s", f.Cluster, m.Namespace, m.Name))
			return err
		})
		if err == nil {
			return names, v
		}
		require.ErrorIs(w.t, err, access.ErrRightsChanged)
		v, err = r.Renew(w.t.Context(), v)
		require.NoError(w.t, err)
	}
}

// foundAnew returns what a reader finds with a new request.
func (w *written) foundAnew(r *Rights, v *AccessSet) (names []string, seen *AccessSet) {
	w.t.Helper()
	require.NoError(w.t, r.Refresh(w.t.Context()))
	anew, err := r.AccessSet(w.t.Context(), v.reader, v.verb)
	require.NoError(w.t, err)
	return w.found(r, anew)
}

// TestRightsAreThoseOfTheTransaction holds that a search never uses other rights than those that were committed before the state that it shows.
func TestRightsAreThoseOfTheTransaction(t *testing.T) {
	w := newStore(t)
	w.member("east")
	w.member("west")
	r := New(w.Store)
	v, err := r.AccessSet(t.Context(), alice, "list")
	require.NoError(t, err)
	names, v := w.found(r, v)
	assert.Empty(t, names)
	assert.False(t, v.AllowsAnyIn("east"))

	w.bind("east", "a", "dev", false)
	names, v = w.foundAnew(r, v)
	assert.Equal(t, []string{"east/a/web"}, names)
	w.bind("west", "b", "dev", false)
	w.bind("west", "a", "ops", false)
	names, v = w.foundAnew(r, v)
	assert.Equal(t, []string{"east/a/web", "west/b/web"}, names)
	assert.True(t, v.AllowsAnyIn("west"))
	before := v

	w.bind("east", "a", "dev", true)
	names, v = w.found(r, v)
	assert.Equal(t, []string{"west/b/web"}, names)
	all := func(string) bool { return true }
	assert.False(t, v.Same(before, pods.GroupVersionResource.GroupResource(), all))
	assert.True(t, v.Same(before, schema.GroupResource{Resource: "nodes"}, all))
	assert.True(t, v.Same(before, pods.GroupVersionResource.GroupResource(), func(cluster string) bool { return cluster == "west" }))

	for name, change := range map[string]func() error{
		"no policy any more": func() error { return w.SetRights(t.Context(), "west", "") },
		"another policy": func() error {
			text, err := Policy{Username: "'x' + user.username", Groups: "['others']"}.Encode()
			require.NoError(t, err)
			return w.SetRights(t.Context(), "west", text)
		},
		"a policy that is wrong": func() error { return w.SetRights(t.Context(), "west", `{"username": "1"}`) },
	} {
		require.NoError(t, change(), name)
		names, v = w.found(r, v)
		assert.Empty(t, names, name)
		text, err := Policy{}.Encode()
		require.NoError(t, err)
		require.NoError(t, w.SetRights(t.Context(), "west", text))
		names, v = w.foundAnew(r, v)
		assert.Equal(t, []string{"west/b/web"}, names, name)
	}

	require.NoError(t, w.CloseStream(t.Context(), w.streams["westroles"]))
	names, v = w.found(r, v)
	assert.Empty(t, names, "not all RBAC objects are known")
	w.stream("west", rbacKind("roles"))
	names, v = w.foundAnew(r, v)
	assert.Equal(t, []string{"west/b/web"}, names)
	require.NoError(t, w.RemoveCluster(t.Context(), "west"))
	names, _ = w.found(r, v)
	assert.Empty(t, names)
}

func TestAReaderNoticesWhenRightsChange(t *testing.T) {
	w := newStore(t)
	w.member("east")
	r := New(w.Store)
	require.NoError(t, r.Refresh(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	defer r.Follow()()
	changed := r.Changed()
	w.put("east", "pods", &metav1.ObjectMeta{Namespace: "a", Name: "other"}, false)
	require.NoError(t, r.Refresh(t.Context()))
	select {
	case <-changed:
		t.Error("a pod changes no rights")
	default:
	}
	w.bind("east", "a", "dev", false)
	<-changed
	v, err := r.AccessSet(t.Context(), alice, "list")
	require.NoError(t, err)
	assert.True(t, v.Allows("east", pods.GroupVersionResource.GroupResource(), "a", "web"))
	cancel()
	<-done
}

// TestGrantsOfTheHub holds that the RBAC of the hub counts for other clusters if it names them.
func TestGrantsOfTheHub(t *testing.T) {
	w := newStore(t)
	w.member("hub")
	text, err := Policy{Home: true}.Encode()
	require.NoError(t, err)
	require.NoError(t, w.SetRights(t.Context(), "hub", text))
	w.stream("east", pods)
	w.put("east", "pods", &metav1.ObjectMeta{Namespace: "a", Name: "web"}, false)
	w.stream("west", pods)
	w.put("west", "pods", &metav1.ObjectMeta{Namespace: "a", Name: "web"}, false)
	r := New(w.Store)
	grant := func(rules ...rbacv1.PolicyRule) {
		w.put("hub", "clusterroles", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "searcher"}, Rules: rules}, false)
	}
	w.put("hub", "clusterrolebindings", &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "searcher"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "searcher"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "alice"}},
	}, false)
	rule := func(verb, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{"clusterpedia.io"}, Resources: []string{resource}, ResourceNames: names}
	}
	v, err := r.AccessSet(t.Context(), alice, "list")
	require.NoError(t, err)
	var names []string
	for _, test := range []struct {
		rule  rbacv1.PolicyRule
		want  []string
		sees  bool
		whole bool
	}{
		{rule("list", "resources", "east"), []string{"east/a/web"}, true, true},
		{rule("list", "resources/pods", "east", "north"), []string{"east/a/web"}, true, true},
		{rule("list", "resources/nodes", "east"), nil, true, false},
		{rule("get", "resources", "east"), nil, true, false},
		{rule("create", "resources", "east"), nil, false, false},
		{rule("list", "collectionresources", "east"), nil, false, false},
		{rule("list", "*"), []string{"east/a/web", "hub/a/web", "hub/b/web", "west/a/web"}, true, true},
	} {
		grant(test.rule)
		names, v = w.foundAnew(r, v)
		assert.ElementsMatch(t, test.want, names, "%v", test.rule)
		assert.Equal(t, test.sees, v.AllowsAnyIn("east"), "%v", test.rule)
		assert.Equal(t, test.whole, v.AllowsAll("east", pods.GroupVersionResource.GroupResource()), "%v", test.rule)
		assert.Equal(t, test.want != nil, v.AllowsAny(AllClusters, pods.GroupVersionResource.GroupResource(), ""), "%v", test.rule)
	}
}

// BenchmarkManyNames finds what a rule with as many names as a member likes shows a reader, which each search does.
func BenchmarkManyNames(b *testing.B) {
	rule := &rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}
	for i := range 20_000 {
		rule.ResourceNames = append(rule.ResourceNames, fmt.Sprint("web-", i))
	}
	for b.Loop() {
		v := &AccessSet{verb: "list", states: map[string]*cluster{"east": {}}, evaluate: func(string, *cluster) grants { return grants{{rule: rule}} }}
		if v.ObjectSet("east", schema.GroupResource{Resource: "pods"}) == nil {
			b.Fatal("nothing is visible")
		}
	}
}

// TestClosedRightsReadNothing closes rights while one cluster is being read, and another one waits for that.
func TestClosedRightsReadNothing(t *testing.T) {
	r := New(newStore(t).Store)
	r.slots = make(chan struct{}, 1)
	of := func(name string) *clusterRights {
		return &clusterRights{name: name, limits: r.limits, place: place{pool: r.pool}}
	}
	slow := of("east")
	slow.own.Lock()
	begun := r.beginRead(slow)
	require.Eventually(t, func() bool { return len(r.slots) == 1 }, time.Minute, time.Millisecond)
	waiting := r.beginRead(of("west"))
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.Close()
	}()
	require.Error(t, (<-waiting).Err)
	slow.own.Unlock()
	<-closed
	assert.Empty(t, r.slots, "the read has ended")
	require.ErrorIs(t, (<-begun).Err, context.Canceled)
	require.ErrorIs(t, r.Refresh(t.Context()), errClosed)
}
