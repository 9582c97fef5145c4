// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"
)

// stand has search wait for the holder of a permit, and look at its pace.
func stand(p *permit) {
	p.awaits()
	p.since = time.Now().Add(-p.limiter.waitTimeout)
	p.look()
	p.came(0)
}

// TestAMemberWithoutPaceWaitsBehindOthers has two members stop in a large object, beside one that does not.
func TestAMemberWithoutPaceWaitsBehindOthers(t *testing.T) {
	limiter := newLimiter(t, nil)
	limiter.waitTimeout = time.Hour // the test looks
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	first, second, honest := limiter.forMember(), limiter.forMember(), limiter.forMember()
	lost := 0
	end := func(err error) {
		lost++
		assert.True(t, isLimit(err))
		assert.False(t, isTooMuch(err), "a slow member has not sent too much")
	}
	one, err := first.holdLarge(t.Context(), end)
	require.NoError(t, err)
	stand(one)
	stand(one)
	assert.Zero(t, lost, "one may be slow")
	two, err := second.holdLarge(t.Context(), end)
	require.NoError(t, err)
	stand(two)
	assert.Equal(t, 1, lost)
	two.release()
	_, err = second.holdLarge(ended, end)
	require.Error(t, err, "it waits for the slow one")
	quick, err := honest.holdLarge(t.Context(), end)
	require.NoError(t, err)
	for range 3 {
		quick.awaits()
		quick.since = time.Now().Add(-limiter.waitTimeout)
		quick.came(int(1.01 * pace * limiter.waitTimeout.Seconds()))
		quick.look()
	}
	quick.complete()
	quick.look()
	assert.Equal(t, 1, lost, "it has kept its pace")
	quick.release()
	quick.release()
	one.release()
	two, err = second.holdLarge(t.Context(), end)
	require.NoError(t, err)
	stand(two)
	assert.Equal(t, 1, lost)
	two.release()
	for _, permits := range []*slots{limiter.large, limiter.slow, first.ownLong, second.ownLong, honest.ownLong} {
		assert.Zero(t, permits.count())
	}
}

// A member is not slow because search has no processor for what it sends.
func TestTheTimeOfSearchIsNotThatOfTheMember(t *testing.T) {
	limiter := newLimiter(t, nil)
	limiter.waitTimeout = time.Hour // the test looks
	other, honest := limiter.forMember(), limiter.forMember()
	slow, err := other.holdLarge(t.Context(), nil)
	require.NoError(t, err)
	stand(slow)
	lost := false
	permit, err := honest.holdLarge(t.Context(), func(error) { lost = true })
	require.NoError(t, err)
	permit.since = time.Now().Add(-time.Hour)
	permit.look()
	permit.since = time.Now().Add(-time.Hour)
	permit.awaits()
	permit.since = time.Now().Add(-20 * time.Minute)
	permit.came(0)
	permit.look()
	assert.Nil(t, honest.lostPace.Load())
	stand(permit)
	assert.True(t, lost, "now the member had all the time")
	permit.release()
	slow.release()
}

// TestAMemberIsNotSlowWhileSearchIsStopped has search have no processor for an hour, in which the member has sent what it should in two
// seconds.
func TestAMemberIsNotSlowWhileSearchIsStopped(t *testing.T) {
	limiter := newLimiter(t, nil)
	e := limiter.forMember().rights // for which a member has 10 s in all
	permit, err := e.holdLarge(t.Context(), func(err error) { assert.NoError(t, err, "it has kept its pace") })
	require.NoError(t, err)
	defer permit.release()
	permit.complete() // the test looks
	permit.read = false
	permit.awaits()
	permit.since = time.Now().Add(-time.Hour)
	permit.came(int(1.01 * pace * limiter.waitTimeout.Seconds()))
	assert.Equal(t, limiter.waitTimeout, permit.look(), "again")
	assert.Nil(t, e.lostPace.Load())
	assert.Equal(t, limiter.waitTimeout, permit.total)
}

// TestMembersThatStopInLargeObjectsKeepNoOtherWaiting has many members take what all need to read large objects, documents and discovery,
// and then stop.
func TestMembersThatStopInLargeObjectsKeepNoOtherWaiting(t *testing.T) {
	large := strings.Repeat("x", 2*smallObject)
	for name, test := range map[string]struct {
		begin string
		ask   func(ctx context.Context, m *Member)
	}{
		"objects": {`{"items":[{"a":"` + large, func(ctx context.Context, m *Member) {
			m.source().page(ctx, "", func(i item) error { i.done(); return nil }) //nolint:errcheck // it fails
		}},
		"documents": {`{"a":"` + large, func(ctx context.Context, m *Member) {
			m.read(ctx, openAPI, "", func([]byte) error { return nil }) //nolint:errcheck // it fails
		}},
		"discovery": {`{"kind":"` + strings.Repeat("x", largeDiscovery), func(ctx context.Context, m *Member) {
			m.discover(ctx) //nolint:errcheck // it fails
		}},
	} {
		t.Run(name, func(t *testing.T) {
			honest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1"},"items":[{"a":"%s"},{"a":"%s"},{"a":"%s"}]}`, large, large, large)
			}))
			defer honest.Close()
			// Until then, liars would hold what they have. A process that has no processor takes longer to lose its waitTimeout.
			limiter := newLimiter(t, func(l *Limits) { l.Timeout = 5 * time.Minute })
			ctx, cancel := context.WithTimeout(t.Context(), limiter.Timeout-time.Minute)
			liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				io.WriteString(w, test.begin) //nolint:errcheck // the client is gone
				w.(http.Flusher).Flush()
				select {
				case <-req.Context().Done():
				case <-ctx.Done(): // discovery does not end by its context
				}
			}))
			defer liar.Close()
			done := make(chan struct{})
			const liars = 4
			for range liars {
				m, err := New("liar", &rest.Config{Host: liar.URL}, Everything, Dependencies{Store: newStore(t), Limiter: limiter})
				require.NoError(t, err)
				go func() {
					for ctx.Err() == nil {
						test.ask(ctx, m)
					}
					done <- struct{}{}
				}()
			}
			defer func() {
				cancel()
				for range liars {
					<-done
				}
			}()
			require.Eventually(t, func() bool { return limiter.large.count() == limiter.large.all }, time.Minute, time.Millisecond, "the liars have all")
			m, err := New("honest", &rest.Config{Host: honest.URL}, Everything, Dependencies{Store: newStore(t), Limiter: limiter})
			require.NoError(t, err)
			_, _, count, err := m.source().page(ctx, "", func(i item) error { i.done(); return nil })
			require.NoError(t, err)
			assert.Equal(t, 3, count)
		})
	}
}

// TestTheTimeOfOthersIsNotThatOfTheMember has members send what others have to make room for, for longer than a member may take for it.
func TestTheTimeOfOthersIsNotThatOfTheMember(t *testing.T) {
	large := strings.Repeat("x", largeDiscovery)
	for name, ask := range map[string]func(m *Member) error{
		"object": func(m *Member) error {
			_, _, _, err := m.source().page(t.Context(), "", func(i item) error { i.done(); return nil })
			return err
		},
		"document": func(m *Member) error {
			return m.read(t.Context(), openAPI, "", func([]byte) error { return nil })
		},
		"discovery": func(m *Member) error {
			_, _, err := m.discover(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := hostile(t, func(l *Limits) { l.DocumentSize.Set(8 << 20) }, func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch req.URL.Path {
				case "/version":
					fmt.Fprint(w, `{}`)
				case "/api", "/apis":
					fmt.Fprintf(w, `{"kind":"APIGroupList","versions":["%s"],"groups":[]}`, large)
				default:
					fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1"},"items":[{"a":"%s"}]}`, large[:2*smallObject])
				}
			})
			m.limiter.Timeout = 5 * time.Second
			leave := takeAll(t, m.limiter.large)
			failed := make(chan error, 1)
			go func() { failed <- ask(m) }()
			require.Eventually(t, func() bool { return m.limiter.ownLong.count() == 1 }, time.Minute, time.Millisecond, "it waits")
			select {
			case err := <-failed:
				require.Fail(t, "it did not wait", "%v", err)
			case <-time.After(m.limiter.Timeout + time.Second):
			}
			leave()
			require.NoError(t, <-failed)
			assert.Zero(t, m.limiter.large.count())
		})
	}
}

// TestAMemberHoldsNothingBeforeItAnswers has a member not answer when it is asked for a document.
func TestAMemberHoldsNothingBeforeItAnswers(t *testing.T) {
	asked, answers := make(chan struct{}), make(chan struct{})
	m := hostile(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answers
		io.WriteString(w, `{}`+strings.Repeat(" ", smallObject)) //nolint:errcheck // the client is gone
	})
	read := make(chan error, 1)
	go func() {
		read <- m.read(t.Context(), openAPI, "", func([]byte) error {
			assert.Equal(t, 1, m.limiter.large.count(), "it is in memory")
			return nil
		})
	}()
	<-asked
	assert.Zero(t, m.limiter.large.count())
	close(answers)
	require.NoError(t, <-read)
	assert.Zero(t, m.limiter.large.count())
}

// TestAnswersOfDiscoveryBeginSoon holds that a round that takes memory may wait for the beginning of few answers.
func TestAnswersOfDiscoveryBeginSoon(t *testing.T) {
	limiter := newLimiter(t, nil)
	limiter.waitTimeout = time.Hour // the test looks
	e := limiter.forMember()
	e.round.begin(t.Context())
	defer e.round.end()
	e.round.awaits(limiter.waitTimeout)()
	assert.Zero(t, e.round.delays, "it takes no memory yet")
	require.NoError(t, e.round.hold(t.Context(), e, true))
	answered := e.round.awaits(limiter.waitTimeout)
	assert.Zero(t, e.round.permit.waits)
	answered()
	assert.Positive(t, e.round.delays)
	e.round.delays = maxDelays*limiter.waitTimeout + 1
	answered = e.round.awaits(limiter.waitTimeout)
	require.Eventually(t, func() bool {
		e.round.permit.mu.Lock()
		defer e.round.permit.mu.Unlock()
		return e.round.permit.waits == 1
	}, time.Minute, time.Millisecond)
	answered()
	assert.Zero(t, e.round.permit.waits)
}

// TestASmallDocumentNeedsNoPermit has others take all permits.
func TestASmallDocumentNeedsNoPermit(t *testing.T) {
	m := hostile(t, nil, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	defer takeAll(t, m.limiter.large)()
	require.NoError(t, m.read(t.Context(), openAPI, "", func([]byte) error { return nil }))
}

// TestAPermitHasATime has members keep the pace in discovery, and in objects that decide what readers see, for longer than they may have a
// permit.
func TestAPermitHasATime(t *testing.T) {
	limiter := newLimiter(t, nil)
	limiter.waitTimeout = time.Hour // the test looks
	e := limiter.forMember()
	var why error
	lost := func(err error) { why = err }
	for range 2 {
		permit, err := e.rights.holdLarge(t.Context(), lost)
		require.NoError(t, err)
		has := []int{limiter.largeOfRights.count(), limiter.large.count(), limiter.slow.count()}
		if permit.slow {
			assert.Equal(t, []int{0, 1, 1}, has, "it waits behind others")
			permit.within(rightsTime)
		} else {
			assert.Equal(t, []int{1, 0, 0}, has)
		}
		why = nil
		permit.came(pace * 7200)
		permit.since = time.Now().Add(-time.Hour)
		permit.waits = 1
		permit.look()
		require.Error(t, why)
		assert.True(t, isLimit(why))
		assert.False(t, isTooMuch(why), "rights stay in force")
		permit.release()
	}
	e.round.begin(t.Context())
	defer e.round.end()
	require.NoError(t, e.round.hold(t.Context(), e, true))
	assert.Equal(t, limiter.Timeout, e.round.permit.most)
}
