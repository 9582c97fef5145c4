// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// unreadable returns the namespaces whose rights are not known.
func (s *stream) unreadable(t *testing.T) (namespaces []string) {
	t.Helper()
	all, err := s.store.UnreadableRights(t.Context())
	require.NoError(t, err)
	for _, one := range all[s.cluster] {
		assert.Equal(t, access.Unreadable{
			Resource: "rolebindings", Namespace: one.Namespace, Name: one.Name,
			Reason: "the RBAC objects of the namespace change too often (--member-max-changes)",
		}, one)
		namespaces = append(namespaces, one.Namespace)
	}
	return namespaces
}

// TestANamespaceThatFloodsClosesNoOther has a user change a RoleBinding in one namespace again and again. Search drops that, receives all
// other changes, and reads what has become of the namespace with the next list.
func TestANamespaceThatFloodsClosesNoOther(t *testing.T) {
	for name, streaming := range map[string]bool{"by streaming lists": true, "by lists": false} {
		t.Run(name, func(t *testing.T) {
			f := newFakeMember(t)
			f.streaming = streaming
			f.wrong = map[string]string{}
			for _, one := range []string{"noisy", "other"} {
				f.wrong[one] = fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"tenant"}}`, one)
			}
			f.put("a", "b", "noisy", "other")
			s := roleBindings(t, f, nil)
			s.lateAfter = time.Second
			s.limiter.namespaces.limit, s.limiter.namespaces.burst = 0, 5
			run := func() (stop func()) {
				ctx, cancel := contextFor(t)
				done := make(chan struct{})
				go func() {
					defer close(done)
					s.run(ctx)
				}()
				return func() {
					cancel()
					<-done
				}
			}
			stop := run()
			defer stop()
			hasEventually(t, s.store, "a", "b", "noisy", "other")
			require.Eventually(t, func() bool { return s.following.Load() != nil }, time.Minute, 10*time.Millisecond)
			for range 10 {
				f.put("noisy")
			}
			f.remove("other")
			f.remove("noisy")
			f.remove("a")
			hasEventually(t, s.store, "b", "noisy", "other")
			assert.Equal(t, []string{"tenant"}, s.unreadable(t), "it stays closed, whatever comes of it now")
			assert.Empty(t, s.closed(t))
			stop()
			next, err := s.store.OpenStream(t.Context(), "east", s.kind)
			require.NoError(t, err)
			assert.Empty(t, next.ResourceVersion, "the next writer lists")
			s.target = nil
			s.limiter.namespaces = newNamespaceRates(100, 100)
			defer run()()
			hasEventually(t, s.store, "b")
			assert.Empty(t, s.unreadable(t))
		})
	}
}

// TestAWatchThatHasDroppedEventsIsReadAnew holds for the same writer.
func TestAWatchThatHasDroppedEventsIsReadAnew(t *testing.T) {
	f := newFakeMember(t)
	f.wrong = map[string]string{"noisy": `{"metadata":{"name":"noisy","namespace":"tenant"}}`}
	f.put("a", "noisy")
	s := roleBindings(t, f, nil)
	s.limiter.namespaces.limit, s.limiter.namespaces.burst = 0, 5
	copyUntil(t, s, f, func() { hasEventually(t, s.store, "a", "noisy") }) //nolint:errcheck // its end is no error or one, by its moment
	lists := f.count("initial")
	ended := make(chan error, 1)
	go func() { ended <- s.copy(t.Context()) }()
	require.Eventually(t, func() bool { return f.count("watch") > 0 }, time.Minute, time.Millisecond)
	for range 10 {
		f.put("noisy")
	}
	require.Eventually(t, func() bool { return len(s.unreadable(t)) == 1 }, time.Minute, 10*time.Millisecond)
	require.Nil(t, s.following.Load(), "it does not look fresh")
	f.CloseClientConnections()
	t.Log("the connection has ended:", <-ended)
	require.Equal(t, lists, f.count("initial"))
	s.limiter.namespaces = newNamespaceRates(100, 100)
	copyUntil(t, s, f, func() { hasEventually(t, s.store, "a", "noisy") }) //nolint:errcheck // as above
	assert.Equal(t, lists+1, f.count("initial"))
	assert.Empty(t, s.unreadable(t))
}

// TestWhatSearchDropsCostsLittle has the events of a namespace count for the rate of its cluster before it floods, and then no more than as
// read.
func TestWhatSearchDropsCostsLittle(t *testing.T) {
	s := roleBindings(t, newFakeMember(t), nil)
	large := []byte(`{"metadata":{"name":"a","namespace":"tenant","annotations":{"a":"` + strings.Repeat("x", 256<<10) + `"}}}`)
	s.limiter.namespaces.limit, s.limiter.namespaces.burst = 0, 100
	cost := func() float64 {
		s.limiter.rate.SetLimit(0)
		before := s.limiter.rate.Tokens()
		_, _, err := s.change(large, changedObject)
		require.NoError(t, err)
		return before - s.limiter.rate.Tokens()
	}
	for range 4 { // the last one is too much, and written in the place of the object
		assert.InDelta(t, (rightsRate-1)*33, cost(), 0.1)
	}
	assert.InDelta(t, 0, cost(), 0.1)
}

// TestQuietNamespacesAreForgotten bounds what is kept of many namespaces.
func TestQuietNamespacesAreForgotten(t *testing.T) {
	r := newNamespaceRates(1<<30, 1000)
	for i := range 5 * namespacesKept {
		assert.True(t, r.allow(fmt.Sprint(i), 1))
		assert.LessOrEqual(t, len(r.of), 2*namespacesKept)
	}
}
