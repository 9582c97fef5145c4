// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

var kindOfRoleBindings = streams.Kind{GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource("rolebindings"), Name: "RoleBinding", Namespaced: true}

// roleBindings returns the stream of RoleBindings of a member.
func roleBindings(t *testing.T, f *fakeMember, change func(*Limits)) *stream {
	t.Helper()
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: newStore(t), Limiter: newLimiter(t, change)})
	require.NoError(t, err)
	require.NoError(t, m.store.SetRights(t.Context(), "east", "{}"))
	return newStream("east", kindOfRoleBindings, source{client: m.client, limiter: m.limiter, resource: kindOfRoleBindings.GroupVersionResource}, m.store)
}

// fill has the cluster have two objects of another resource.
func fill(t *testing.T, s *store.Store) {
	t.Helper()
	target, err := s.OpenStream(t.Context(), "east", kindOfConfigMaps)
	require.NoError(t, err)
	for _, name := range []string{"x", "y"} {
		o, err := NewObject("east", kindOfConfigMaps, []byte(object(name, 1)))
		require.NoError(t, err)
		require.NoError(t, s.Write(t.Context(), target, store.Batch{Changes: []store.Change{{Object: o}}}))
	}
}

// hasEventually waits for objects of both resources.
func hasEventually(t *testing.T, s *store.Store, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Equal(want, slices.Sorted(slices.Values(names(t, s)))) }, time.Minute, 20*time.Millisecond, "want %q", want)
}

// closed returns why rights by the objects of a stream are not known.
func (s *stream) closed(t *testing.T) (why string) {
	t.Helper()
	require.NoError(t, s.store.ReadRights(t.Context(), s.cluster, func(r *access.RightsReading) error {
		why = r.Closed
		return nil
	}))
	return why
}

// TestAFullClusterHearsOfRevokedRights has a user write so many objects that search keeps no more of the cluster. Others lose rights all
// the same, without another list: the watch goes on.
func TestAFullClusterHearsOfRevokedRights(t *testing.T) {
	for name, streaming := range map[string]bool{"by streaming lists": true, "by lists": false} {
		t.Run(name, func(t *testing.T) {
			f := newFakeMember(t)
			f.streaming = streaming
			f.put("a", "b")
			s := roleBindings(t, f, func(l *Limits) { l.Objects = 5 })
			fill(t, s.store)
			ctx, cancel := contextFor(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.run(ctx)
			}()
			t.Cleanup(func() {
				cancel()
				<-done
			})
			hasEventually(t, s.store, "a", "b", "x", "y")
			f.put("c")
			hasEventually(t, s.store, "a", "b", "c", "x", "y")
			f.put("d")
			full := func() bool { return s.Status().Reason == LimitReached }
			require.Eventually(t, full, time.Minute, 10*time.Millisecond)
			require.Nil(t, s.following.Load(), "it does not look fresh")
			lists := f.count("list") + f.count("initial")
			f.remove("a")
			hasEventually(t, s.store, "b", "c", "x", "y")
			assert.Equal(t, lists, f.count("list")+f.count("initial"))
			assert.Empty(t, s.closed(t), "others keep their rights")

			f.CloseClientConnections()
			hasEventually(t, s.store, "b", "c", "d", "x", "y") // the next list has room
			require.Eventually(t, func() bool { return !full() }, time.Minute, 10*time.Millisecond)
			require.Eventually(t, func() bool { return s.following.Load() != nil }, time.Minute, 10*time.Millisecond)
		})
	}
}

// TestAListInAFullClusterIsFollowed begins with a cluster that has more than search keeps, but was copied before.
func TestAListInAFullClusterIsFollowed(t *testing.T) {
	f := newFakeMember(t)
	f.put("a", "b")
	s := roleBindings(t, f, func(l *Limits) { l.Objects = 4 })
	fill(t, s.store)
	target, err := s.store.OpenStream(t.Context(), "east", s.kind)
	require.NoError(t, err)
	require.NoError(t, s.store.Sweep(t.Context(), target, 1, ""))
	ctx, cancel := contextFor(t)
	failed := make(chan error, 1)
	go func() { failed <- s.copy(ctx) }()
	hasEventually(t, s.store, "a", "b", "x", "y")
	f.put("c")
	require.Eventually(t, func() bool { return s.Status().Reason == LimitReached }, time.Minute, 10*time.Millisecond)
	f.CloseClientConnections()
	t.Log("the connection has ended:", <-failed)
	go func() { failed <- s.copy(ctx) }()
	require.Eventually(t, func() bool { return f.count("initial") == 2 }, time.Minute, 10*time.Millisecond)
	f.remove("a")
	hasEventually(t, s.store, "b", "x", "y")
	assert.Equal(t, 2, f.count("initial"))
	cancel()
	t.Log("the copy was cancelled:", <-failed)
}

// TestWhatCannotBeReadClosesRights has a cluster send what search does not read to its end. What has become of the rights that were copied
// before is not known.
func TestWhatCannotBeReadClosesRights(t *testing.T) {
	f := newFakeMember(t)
	f.put("a", "b")
	s := roleBindings(t, f, func(l *Limits) {
		l.ObjectSize.Set(1 << 20)
		l.Objects = 10
	})
	require.False(t, isLimit(copyUntil(t, s, f, func() { hasEventually(t, s.store, "a", "b") })))
	assert.Empty(t, s.closed(t))

	f.do(func() {
		f.wrong = map[string]string{"large": fmt.Sprintf(`{"metadata":{"name":"large"},"x":%q}`, strings.Repeat("x", 2<<20))}
	})
	f.put("large")
	f.remove("a")
	require.True(t, isLimit(s.copy(t.Context())))
	assert.Contains(t, s.closed(t), "rolebindings: an object has more than 1Mi (--member-max-object-size)")
	require.True(t, isLimit(s.copy(t.Context())), "in a list, too")
	assert.NotEmpty(t, s.closed(t))
	unreadable, err := s.store.UnreadableRights(t.Context())
	require.NoError(t, err)
	require.Len(t, unreadable["east"], 1)
	assert.Equal(t, access.Unreadable{Resource: "rolebindings", Reason: "an object has more than 1Mi (--member-max-object-size)"}, unreadable["east"][0])

	f.remove("large")
	require.False(t, isLimit(copyUntil(t, s, f, func() { hasEventually(t, s.store, "b") })))
	assert.Empty(t, s.closed(t))

	var many []string
	for n := range 12 {
		many = append(many, fmt.Sprint("n", n))
	}
	f.put(many...)
	s.target.ResourceVersion = ""
	require.True(t, isLimit(s.copy(t.Context())))
	assert.Contains(t, s.closed(t), "rolebindings: the list has more than 10 objects (--member-max-objects)")

	next, err := s.store.OpenStream(t.Context(), "east", s.kind)
	require.NoError(t, err)
	assert.Empty(t, next.ResourceVersion, "the next writer lists")
}

// TestAMemberThatDoesNotAnswerClosesNothing keeps what was copied in force, as of other objects: the cluster may be away.
func TestAMemberThatDoesNotAnswerClosesNothing(t *testing.T) {
	f := newFakeMember(t)
	f.put("a")
	s := roleBindings(t, f, nil)
	copyUntil(t, s, f, func() { hasEventually(t, s.store, "a") }) //nolint:errcheck // its end is no error or one, by its moment
	f.do(func() { f.refuse = http.StatusInternalServerError })
	require.Error(t, s.copy(t.Context()))
	assert.Empty(t, s.closed(t))
}

// copyUntil copies until a function returns, and returns how the copy ended when the member ended the connection.
func copyUntil(t *testing.T, s *stream, f *fakeMember, then func()) error {
	t.Helper()
	failed := make(chan error, 1)
	go func() { failed <- s.copy(t.Context()) }()
	then()
	require.Eventually(t, func() bool { return s.following.Load() != nil }, time.Minute, 10*time.Millisecond)
	f.CloseClientConnections()
	return <-failed
}
