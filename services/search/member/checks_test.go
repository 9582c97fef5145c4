// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store"
)

func heardOf(t *testing.T, s *store.Store) time.Time {
	t.Helper()
	ages, err := s.Ages(t.Context(), []schema.GroupVersionResource{configMaps}, &query.Query{WithStaleness: true})
	require.NoError(t, err)
	return ages["east"]
}

func TestAQuietStreamIsHeardWhileItsMemberAnswers(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a")
	m, _ := run(t, f, s)
	eventually(t, s, "a")
	checks := NewChecks(s)
	remove := checks.add(m)
	// A moment that is later than any word of the watch. The watch must be open by then.
	later := func() time.Time { return time.Now().Add(time.Minute).Truncate(time.Millisecond) }
	var at time.Time
	require.Eventually(t, func() bool {
		at = later()
		checks.roundAt(t.Context(), at)
		return heardOf(t, s).Equal(at)
	}, time.Minute, 10*time.Millisecond)
	asked := f.count("list")
	assert.Positive(t, asked, "it was asked")

	f.do(func() { f.refuse = http.StatusInternalServerError })
	checks.roundAt(t.Context(), later().Add(time.Minute))
	assert.True(t, heardOf(t, s).Equal(at), "it does not answer")
	f.do(func() { f.refuse = 0 })

	w := onlyStream(m).following.Load()
	w.unwritten.Add(1)
	checks.roundAt(t.Context(), later().Add(time.Minute))
	assert.True(t, heardOf(t, s).Equal(at), "an event is not written yet")
	w.unwritten.Add(-1)

	checks.roundAt(t.Context(), w.began)
	assert.True(t, heardOf(t, s).Equal(at), "the watch is younger than the check")

	remove()
	checks.roundAt(t.Context(), later().Add(time.Minute))
	assert.True(t, heardOf(t, s).Equal(at), "the member is not copied any more")
}

func TestEventsThatAreWrittenAreNotMissing(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	m, _ := run(t, f, s)
	eventually(t, s)
	f.put("a", "b", "c")
	eventually(t, s, "a", "b", "c")
	require.Eventually(t, func() bool {
		w := onlyStream(m).following.Load()
		return w != nil && w.unwritten.Load() == 0
	}, time.Minute, 10*time.Millisecond)
}

// TestAMemberThatTakesItsTimeMakesNoOtherLookOld has a member whose check does not end.
func TestAMemberThatTakesItsTimeMakesNoOtherLookOld(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a")
	m, _ := run(t, f, s)
	eventually(t, s, "a")
	require.Eventually(t, func() bool { return onlyStream(m).following.Load() != nil }, time.Minute, 10*time.Millisecond)
	slow := newMember(t, &rest.Config{Host: "http://127.0.0.1:1"}, nil)
	slow.mu.Lock()
	defer slow.mu.Unlock()
	checks := NewChecks(s)
	defer checks.add(slow)()
	defer checks.add(m)()
	ctx, cancel := contextFor(t)
	done := make(chan struct{})
	at := time.Now().Add(time.Minute).Truncate(time.Millisecond)
	go func() {
		defer close(done)
		checks.roundAt(ctx, at)
	}()
	require.Eventually(t, func() bool { return heardOf(t, s).Equal(at) }, time.Minute, 10*time.Millisecond)
	cancel()
	<-done
	at = at.Add(time.Minute)
	checks.roundAt(t.Context(), at)
	assert.True(t, heardOf(t, s).Equal(at), "the next round does not ask it again")
}

// TestChecksEndWithThoseThatAskMembers has a member whose check outlives its round.
func TestChecksEndWithThoseThatAskMembers(t *testing.T) {
	slow := newMember(t, &rest.Config{Host: "http://127.0.0.1:1"}, nil)
	slow.mu.Lock()
	checks := NewChecks(newStore(t))
	defer checks.add(slow)()
	ctx, cancel := contextFor(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		checks.Run(ctx)
	}()
	require.Eventually(t, slow.underCheck.Load, time.Minute, time.Millisecond)
	cancel()
	select {
	case <-done:
		assert.Fail(t, "a member is still being asked")
	case <-time.After(100 * time.Millisecond):
	}
	slow.mu.Unlock()
	<-done
	assert.False(t, slow.underCheck.Load())
}

// TestAMemberCanBeLookedAtWhileItRemoves has a resource whose removal takes its time.
func TestAMemberCanBeLookedAtWhileItRemoves(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a")
	m, _ := run(t, f, s)
	eventually(t, s, "a")
	for range writesAtOnce {
		m.limiter.writes <- struct{}{}
	}
	f.do(func() { f.resources = nil })
	require.Eventually(t, func() bool {
		_, all := m.Status()
		return len(all) == 1 && m.running()[configMaps].isOver()
	}, time.Minute, 10*time.Millisecond)
	assert.Equal(t, []string{"a"}, names(t, s), "the removal waits for a slot")
	for range writesAtOnce {
		<-m.limiter.writes
	}
	eventually(t, s)
}

func onlyStream(m *Member) *stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.streams {
		return r.stream
	}
	return nil
}

func TestASilentWatchIsOpenedAnew(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a")
	m, stop := run(t, f, s)
	eventually(t, s, "a")
	stop()
	from := newStream("east", onlyStream(m).kind, onlyStream(m).source, s)
	from.silence = 100 * time.Millisecond // a request that ends earlier may not reach the member
	ctx, cancel := contextFor(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		from.run(ctx)
	}()
	require.Eventually(t, func() bool { return f.count("watch") > 1 }, time.Minute, 10*time.Millisecond)
	cancel()
	<-done
	assert.Equal(t, 1, f.count("initial"), "nothing is listed again")
}

// TestWhatAMemberHasSentIsMissingUntilItIsWritten has an event wait until its member may send more, and another one that has come in part.
func TestWhatAMemberHasSentIsMissingUntilItIsWritten(t *testing.T) {
	for name, hold := range map[string]func(f *fakeMember, m *Member){
		"at the limiter": func(_ *fakeMember, m *Member) {
			m.limiter.rate.SetBurst(1)
			m.limiter.rate.SetLimit(1e-9)
			m.limiter.rate.Allow()
		},
		"in part": func(f *fakeMember, _ *Member) { f.half = "c" },
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newFakeMember(t), newStore(t)
			f.put("a")
			m, _ := run(t, f, s)
			eventually(t, s, "a")
			checks := NewChecks(s)
			defer checks.add(m)()
			at := time.Now().Add(time.Minute).Truncate(time.Millisecond)
			require.Eventually(t, func() bool {
				checks.roundAt(t.Context(), at)
				return heardOf(t, s).Equal(at)
			}, time.Minute, 10*time.Millisecond)
			w := onlyStream(m).following.Load()
			f.do(func() { hold(f, m) })
			f.put("b", "c")
			eventually(t, s, "a", "b")
			require.Eventually(t, func() bool { return w.unwritten.Load() == 1 }, time.Minute, time.Millisecond, "b is written, c is not")
			checks.roundAt(t.Context(), at.Add(time.Minute))
			assert.True(t, heardOf(t, s).Before(at.Add(time.Minute)))
		})
	}
}

// TestWhatHasComeIsHeardWithItsLastEvent reads events that come together.
func TestWhatHasComeIsHeardWithItsLastEvent(t *testing.T) {
	for text, want := range map[string][]bool{
		"{}|{}":           {true, true},
		"{}{}":            {false, true},
		"{}\n{}\n|\n":     {false, true},
		`{}{"a":|1}`:      {false, true},
		`{}{|"a":1}{}|{}`: {false, false, true, true},
	} {
		var ends []int
		var all strings.Builder
		for part := range strings.SplitSeq(text, "|") {
			all.WriteString(part)
			ends = append(ends, all.Len())
		}
		i := newItems(t.Context(), newLimiter(t, nil).forMember(), &chunks{text: all.String(), ends: ends}, nil)
		i.quiet, i.follows = true, &following{}
		var got []bool
		for range want {
			before := i.syncedAt
			require.NoError(t, i.next(func(item) error { return nil }), text)
			got = append(got, i.syncedAt.After(before))
		}
		assert.Equal(t, want, got, text)
		require.Error(t, i.next(func(item) error { return nil }))
		i.close()
		assert.Zero(t, i.follows.unwritten.Load())
	}
}
