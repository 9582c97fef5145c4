// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// TestAnObjectThatCannotBeReadClosesItsClusterOnly holds for all that a member may have wrong, and after a restart.
func TestAnObjectThatCannotBeReadClosesItsClusterOnly(t *testing.T) {
	meta := func(namespace, name string) string {
		return fmt.Sprintf(`"metadata": {"namespace": %q, "name": %q}`, namespace, name)
	}
	for name, test := range map[string]struct {
		resource, text string
	}{
		"rules of another type":          {resource: "roles", text: `{` + meta("a", "x") + `, "rules": "everything"}`},
		"verbs of another type":          {resource: "clusterroles", text: `{` + meta("", "x") + `, "rules": [{"verbs": {"a": 1}}]}`},
		"a subject of another type":      {resource: "rolebindings", text: `{` + meta("a", "x") + `, "subjects": ["alice"]}`},
		"a role of another type":         {resource: "clusterrolebindings", text: `{` + meta("", "x") + `, "roleRef": []}`},
		"metadata of another type":       {resource: "roles", text: `{"metadata": {"namespace": "a", "name": "x", "generation": "one"}}`},
		"an aggregation of another type": {resource: "clusterroles", text: `{` + meta("", "x") + `, "aggregationRule": 7}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStore(t)
			w.member("east")
			w.member("west")
			w.bind("east", "a", "dev", false)
			w.bind("west", "a", "dev", false)
			running := New(w.Store)
			v, err := running.AccessSet(t.Context(), alice, "list")
			require.NoError(t, err)
			names, v := w.found(running, v)
			require.Equal(t, []string{"east/a/web", "west/a/web"}, names)

			object := store.Object{Namespace: "a", Name: "x", UID: "x", ResourceVersion: "1", JSON: []byte(test.text)}
			change := store.Change{Object: object}
			require.NoError(t, w.Write(t.Context(), w.streams["east"+test.resource], store.Batch{Changes: []store.Change{change}}))
			names, v = w.found(running, v)
			assert.Equal(t, []string{"west/a/web"}, names)
			restarted := New(w.Store)
			names, _ = w.foundAnew(restarted, v)
			assert.Equal(t, []string{"west/a/web"}, names)
			unreadable, err := w.UnreadableRights(t.Context())
			require.NoError(t, err)
			require.Len(t, unreadable["east"], 1, "an administrator learns which object it is")
			assert.Equal(t, change.Name, unreadable["east"][0].Name)
			assert.NotEmpty(t, unreadable["east"][0].Reason)
			assert.Empty(t, unreadable["west"])

			change.JSON, change.ResourceVersion = []byte(`{`+meta("a", "x")+`}`), "2"
			require.NoError(t, w.Write(t.Context(), w.streams["east"+test.resource], store.Batch{Changes: []store.Change{change}}))
			names, _ = w.foundAnew(running, v)
			assert.Equal(t, []string{"east/a/web", "west/a/web"}, names, "the object is right again")
		})
	}
}

// TestAnUnreadableObjectIsForgottenOnceAListLacksIt holds also for one that stands for an object which was refused, and whose reason is reported.
func TestAnUnreadableObjectIsForgottenOnceAListLacksIt(t *testing.T) {
	w := newStore(t)
	w.member("east")
	w.bind("east", "a", "dev", false)
	r := New(w.Store)
	v := &AccessSet{reader: alice, verb: "list"}
	refused := store.Change{Object: store.Object{
		Namespace: "a", Name: "x", JSON: []byte(`{"metadata": {"namespace": "a", "name": "x", "annotations": {"` + access.RefusedAnnotation + `": "no text"}}, "rules": "refused"}`),
	}}
	roles := w.streams["eastroles"]
	for _, listing := range []int64{1, 2} {
		require.NoError(t, w.Write(t.Context(), roles, store.Batch{Changes: []store.Change{refused}, Listing: listing}))
		require.NoError(t, w.Sweep(t.Context(), roles, listing, "5"))
		names, _ := w.foundAnew(r, v)
		assert.Empty(t, names)
		unreadable, err := w.UnreadableRights(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []access.Unreadable{{Resource: "roles", Namespace: "a", Name: "x", Reason: "no text"}}, unreadable["east"])
	}
	require.NoError(t, w.Sweep(t.Context(), roles, 3, "6"))
	names, _ := w.foundAnew(r, v)
	assert.Equal(t, []string{"east/a/web"}, names)
	unreadable, err := w.UnreadableRights(t.Context())
	require.NoError(t, err)
	assert.Empty(t, unreadable)
}

// TestAReaderWaitsForNoOtherCluster holds while another cluster cannot be read at all, and although that one changes all the time.
func TestAReaderWaitsForNoOtherCluster(t *testing.T) {
	w := newStore(t)
	w.member("east")
	w.member("west")
	w.bind("west", "a", "dev", false)
	r := New(w.Store)
	require.NoError(t, r.Refresh(t.Context()))
	busy, release := make(chan struct{}), make(chan struct{})
	r.reads.DoChan("east", func() (any, error) { // a read that takes its time
		close(busy)
		<-release
		return nil, nil
	})
	<-busy
	defer close(release)
	var v *AccessSet
	for i := range 20 {
		w.bind("east", "a", fmt.Sprint("group", i), false)
		var err error
		if v == nil {
			v, err = r.AccessSet(t.Context(), alice, "list", "west")
			require.NoError(t, err)
		}
		v, err = r.Renew(t.Context(), v)
		require.NoError(t, err)
		var names []string
		names, v = w.found(r, v)
		assert.Equal(t, []string{"west/a/web"}, names)
	}
	w.bind("west", "a", "dev", true)
	names, _ := w.found(r, v)
	assert.Empty(t, names, "what its own cluster revokes is out of force at once")
}

// TestWhoMayMissWhatANewRightShows holds for readers of a cluster whose rights were not read for long, or never.
func TestWhoMayMissWhatANewRightShows(t *testing.T) {
	w := newStore(t)
	w.member("east")
	w.member("west")
	w.bind("east", "a", "dev", false)
	r := New(w.Store)
	behind := func(r *Rights, reader user.Info) bool {
		t.Helper()
		v, err := r.AccessSet(t.Context(), reader, "list")
		require.NoError(t, err)
		return v.IsBehind()
	}
	require.NoError(t, r.Refresh(t.Context()))
	assert.False(t, behind(r, alice))
	release := make(chan struct{})
	r.reads.DoChan("east", func() (any, error) { // a read that takes its time
		<-release
		return nil, nil
	})
	defer close(release)
	w.bind("east", "b", "dev", false)
	r.index.Store(nil)
	assert.False(t, behind(r, alice), "for a moment")
	r.members["east"].state.Load().began = time.Now().Add(-time.Minute)
	assert.True(t, behind(r, alice))
	assert.False(t, behind(r, &user.DefaultInfo{Name: "bob"}), "it has no rights there")
	v, err := r.AccessSet(t.Context(), alice, "list")
	require.NoError(t, err)
	assert.False(t, v.WithGrant("east", nil).IsBehind(), "the hub grants everything")
	assert.True(t, v.WithGrant("west", nil).IsBehind())
	assert.False(t, Unlimited(alice).IsBehind())

	anew := New(w.Store)
	now, err := anew.look(t.Context(), time.Now())
	require.NoError(t, err)
	assert.True(t, anew.accessSet(now, alice, "list").IsBehind(), "a replica that has read nothing yet")
}

// TestClustersDoNotTakeTheGrantsOfOthersFromMemory holds for one that changes all the time.
func TestClustersDoNotTakeTheGrantsOfOthersFromMemory(t *testing.T) {
	w := newStore(t)
	w.member("east")
	w.member("west")
	r := New(w.Store)
	for i := range 5 {
		w.bind("east", "a", fmt.Sprint("group", i), false)
		require.NoError(t, r.Refresh(t.Context()))
		v, err := r.AccessSet(t.Context(), alice, "list")
		require.NoError(t, err)
		assert.False(t, v.AllowsAnywhere())
	}
	assert.Equal(t, 2, r.grants.len(), "one for each cluster")
}

// TestAnExpressionIsBounded holds that who a reader is takes no more than a moment to find out.
func TestAnExpressionIsBounded(t *testing.T) {
	who, err := newIdentities(Policy{Username: `user.groups.all(a, user.groups.all(b, user.groups.all(c, a + b + c != 'x'))) ? user.username : 'nobody'`})
	require.NoError(t, err)
	many := *alice
	for i := range 500 {
		many.Groups = append(many.Groups, fmt.Sprint("group", i))
	}
	_, err = who.of(t.Context(), &many)
	require.ErrorContains(t, err, "cost limit")
	got, err := who.of(t.Context(), alice)
	require.NoError(t, err)
	assert.Equal(t, "alice", got.GetName())
}

// BenchmarkSearchesBesideRBACWrites is about a reader of one cluster while another cluster, or the same, changes its rules.
func BenchmarkSearchesBesideRBACWrites(b *testing.B) {
	for _, of := range []string{"nobody", "another cluster", "the same cluster"} {
		b.Run(of, func(b *testing.B) {
			w := newStore(b)
			w.member("east")
			w.member("west")
			for i := range 2000 {
				w.bind("east", fmt.Sprint("ns", i), "others", false)
				w.bind("west", fmt.Sprint("ns", i), "others", false)
			}
			w.bind("west", "a", "dev", false)
			r := New(w.Store)
			require.NoError(b, r.Refresh(b.Context()))
			done, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				cluster := map[string]string{"another cluster": "east", "the same cluster": "west"}[of]
				for i := 0; cluster != ""; i++ {
					select {
					case <-done:
						return
					case <-time.After(time.Second / 54):
						w.put(cluster, "clusterroles", &rbacv1.ClusterRole{
							ObjectMeta: metav1.ObjectMeta{Name: "changing"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, Resources: []string{fmt.Sprint(i)}}},
						}, false)
					}
				}
			}()
			for b.Loop() {
				v, err := r.AccessSet(b.Context(), alice, "list")
				require.NoError(b, err)
				w.found(r, v)
			}
			close(done)
			<-ended
		})
	}
}
