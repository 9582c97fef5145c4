// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"k8s.io/client-go/rest"
)

// use has a rate be used up.
func use(r *rate.Limiter) {
	for range 1000 {
		charge(r, r.Burst())
	}
}

// TestWhoFloodsAMemberKeepsNoRevocationFromSearch has others of a member take all that it may send, write and keep.
func TestWhoFloodsAMemberKeepsNoRevocationFromSearch(t *testing.T) {
	f := newFakeMember(t)
	f.put("a", "b")
	s := newStore(t)
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: s, Limiter: newLimiter(t, nil)})
	require.NoError(t, err)
	use(m.limiter.rate)
	for range writesAtOnce {
		m.limiter.writes <- struct{}{}
	}
	require.True(t, m.limiter.own.TryAcquire(m.limiter.share))
	defer takeAll(t, m.limiter.lists)()
	defer takeAll(t, m.limiter.ownLong)()
	defer takeAll(t, m.limiter.large)()
	text := fmt.Sprintf(`{"metadata":{"name":"large","namespace":"default"},"x":%q}`, strings.Repeat("x", 2*smallObject))
	f.wrong = map[string]string{"large": text}
	from := newStream("east", kindOfRoleBindings, source{client: m.client, limiter: m.limiter, resource: kindOfRoleBindings.GroupVersionResource}, m.store)
	ctx, cancel := contextFor(t)
	ended := make(chan error, 1)
	go func() { ended <- from.copy(ctx) }()
	hasEventually(t, s, "a", "b")
	f.put("large")
	f.remove("a")
	hasEventually(t, s, "b", "large")
	cancel()
	require.Error(t, <-ended)
}

// TestRightsAreClosedWhileSearchIsLate has search not read what a member has sent of its RBAC.
func TestRightsAreClosedWhileSearchIsLate(t *testing.T) {
	f := newFakeMember(t)
	f.put("a", "b")
	s := roleBindings(t, f, nil)
	s.lateAfter = 200 * time.Millisecond
	copyUntil(t, s, f, func() { hasEventually(t, s.store, "a", "b") }) //nolint:errcheck // its end is no error or one, by its moment
	ended := make(chan error, 1)
	go func() { ended <- s.copy(t.Context()) }()
	require.Eventually(t, func() bool { return f.count("watch") > 0 }, time.Minute, time.Millisecond)
	use(s.limiter.rate)
	f.remove("a")
	f.put("c")
	err := <-ended
	require.True(t, isTooMuch(err), err)
	assert.Contains(t, s.closed(t), "search has not read for more than 200ms what the cluster has sent")

	s.limiter.rate = rate.NewLimiter(s.limiter.rate.Limit(), s.limiter.rate.Burst())
	s.lateAfter = lateAfter
	copyUntil(t, s, f, func() { hasEventually(t, s.store, "b", "c") }) //nolint:errcheck // as above
	assert.Empty(t, s.closed(t))
}

// TestAWatchThatWasQuietIsNotLate has the first event after a long time be unwritten.
func TestAWatchThatWasQuietIsNotLate(t *testing.T) {
	w := &following{}
	w.caughtUp(time.Now().Add(-time.Hour))
	before := time.Now()
	w.count(1)
	assert.False(t, time.Unix(0, w.caught.Load()).Before(before))
	w.caught.Store(1)
	w.count(1)
	w.count(-1)
	assert.Equal(t, int64(1), w.caught.Load(), "one is missing all the time")
	w.count(-1)
	assert.False(t, time.Unix(0, w.caught.Load()).Before(before))
}

// TestAListOfRightsMayTakeItsTime has a streaming list take longer than a watch may be late.
func TestAListOfRightsMayTakeItsTime(t *testing.T) {
	f := newFakeMember(t)
	s := roleBindings(t, f, nil)
	s.lateAfter = 20 * time.Millisecond
	part := make(chan struct{})
	f.odd = func(w http.ResponseWriter, _ url.Values) bool {
		fmt.Fprintf(w, `{"type":"ADDED","object":%s}`, object("a", 1))
		w.(http.Flusher).Flush()
		<-part
		fmt.Fprint(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		return true
	}
	ended := make(chan error, 1)
	go func() { ended <- s.copy(t.Context()) }()
	hasEventually(t, s.store, "a")
	select {
	case err := <-ended:
		assert.Fail(t, "the list has ended", err)
	case <-time.After(10 * s.lateAfter):
	}
	close(part)
	require.NoError(t, <-ended)
	assert.Empty(t, s.closed(t))
}
