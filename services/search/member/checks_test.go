// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store"
)

func heardOf(t *testing.T, s *store.Store) time.Time {
	t.Helper()
	heard, err := s.Ages(t.Context(), []schema.GroupVersionResource{configMaps}, &query.Query{WithStaleness: true})
	require.NoError(t, err)
	return heard["east"]
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
	from.silence = time.Millisecond
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
