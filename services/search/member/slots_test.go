// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// takeAll takes all slots for parties that have nothing else.
func takeAll(t *testing.T, p *slots) (leave func()) {
	t.Helper()
	var all []*slot
	for n := range p.all {
		one, err := p.take(t.Context(), n, nil)
		require.NoError(t, err)
		all = append(all, one)
	}
	return func() {
		for _, one := range all {
			one.leave()
		}
	}
}

// is reports whether a slot was given.
func (o *slot) is(t *testing.T) bool {
	t.Helper()
	select {
	case <-o.given:
		return true
	default:
		return false
	}
}

// TestAFreePlaceGoesToThePartyWithFewest has many wait for slots.
func TestAFreePlaceGoesToThePartyWithFewest(t *testing.T) {
	p := newSlots(3, 2)
	var a []*slot
	for range 4 {
		a = append(a, p.ask("a", nil))
	}
	assert.True(t, a[1].is(t))
	assert.False(t, a[2].is(t), "it is beyond the part of a party")
	b, later, c := p.ask("b", nil), p.ask("b", nil), p.ask("c", nil)
	assert.True(t, b.is(t))
	a[0].since = time.Now().Add(-time.Hour)
	a[0].leave()
	a[0].leave()
	assert.True(t, c.is(t), "it has none")
	c.leave()
	assert.True(t, later.is(t), "a has as many, and has had one for long")
	assert.Equal(t, 1, p.parties["a"].has)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.take(ended, "d", nil)
	require.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, p.try("d"))
	for _, one := range append(a, b, c, later) {
		one.leave()
	}
	assert.Zero(t, p.count())
	assert.Zero(t, p.waiting)
	assert.NotNil(t, p.try("d"))
	assert.Len(t, p.parties, 2, "those that need not be known are forgotten")
}

// TestWhoeverKeepsOthersWaitingHasToHurry has others come later.
func TestWhoeverKeepsOthersWaitingHasToHurry(t *testing.T) {
	p := newSlots(2, 2)
	hurried := map[string]int{}
	hurry := func(name string) func() { return func() { hurried[name]++ } }
	a, read := p.ask("a", hurry("a")), p.ask("a", hurry("read"))
	read.isRead()
	assert.Empty(t, hurried)
	b, c := p.ask("b", hurry("b")), p.ask("c", hurry("c"))
	assert.Equal(t, []int{2, 0, 0}, []int{hurried["a"], hurried["read"], hurried["b"]})
	a.leave()
	assert.True(t, b.is(t))
	assert.Equal(t, 1, hurried["b"], "also one that gets its slot while others wait")
	assert.Zero(t, hurried["c"])
	c.leave()
}

// TestAParkedPlaceGoesToThePartyWithFewer has parties wait for something else with a slot.
func TestAParkedPlaceGoesToThePartyWithFewer(t *testing.T) {
	p := newSlots(4, 4)
	var ended []string
	var all []*slot
	for _, name := range []string{"a", "a", "a", "b"} {
		one := p.ask(name, nil)
		one.park(func() { ended = append(ended, name) })
		all = append(all, one)
	}
	assert.Empty(t, ended)
	c := p.ask("c", nil)
	assert.Equal(t, []string{"a"}, ended)
	assert.False(t, c.is(t), "it is not left yet")
	require.True(t, all[2].ending, "the latest")
	all[2].leave()
	assert.True(t, c.is(t))
	d := p.ask("c", nil)
	assert.Equal(t, []string{"a", "a"}, ended)
	all[1].leave()
	assert.True(t, d.is(t))
	a := p.ask("a", nil)
	assert.Equal(t, []string{"a", "a", "a"}, ended, "c has more, but has parked none: a loses its own")
	for _, one := range append(all, a, c, d) {
		one.leave()
	}
	assert.Zero(t, p.count())
	assert.Zero(t, p.ending)
}

// TestMembersThatStopBeforeAPermitKeepNoOtherWaiting has many members begin more large objects than may be read, and stop.
func TestMembersThatStopBeforeAPermitKeepNoOtherWaiting(t *testing.T) {
	const liars, streams = 24, 40
	limiter := newLimiter(t, nil)
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	text := strings.Repeat("x", smallObject+100)
	for n := range liars {
		server := &stops{begin: []byte(`{"type":"ADDED","object":{"metadata":{"name":"` + text)}
		m, err := New(fmt.Sprint("liar", n), &rest.Config{Host: "http://member", Transport: server}, Everything, Dependencies{Store: s, Limiter: limiter})
		require.NoError(t, err)
		for i := range streams {
			from := m.source()
			from.resource = schema.GroupVersionResource{Group: fmt.Sprint("example", i%4), Version: "v1", Resource: fmt.Sprint("things", i)}
			all.Go(func() {
				for ctx.Err() == nil {
					readAll(ctx, from, "watch") //nolint:errcheck // the test ends it
					sleep(ctx, 5*time.Second)   // as pauses do at first
				}
			})
		}
	}
	require.Eventually(t, func() bool { return limiter.slots.count() == allSlots }, time.Minute, time.Millisecond)
	honest := &stops{begin: []byte(`{"type":"ADDED","object":{"metadata":{"name":"` + text[:9000] + `"}}}` + "\n")}
	m, err := New("honest", &rest.Config{Host: "http://member", Transport: honest}, Everything, Dependencies{Store: s, Limiter: limiter})
	require.NoError(t, err)
	within, end := context.WithTimeout(ctx, 20*time.Second) // others have 2 s, and the last of them a slot of the processors
	defer end()
	began := time.Now()
	read := false
	err = m.source().watch(within, "1", false, func() {}, func(e event) error {
		read = true
		t.Logf("the object has come after %s", time.Since(began))
		e.done()
		return context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.True(t, read)
}

// TestAGroupTakesNotAllListsOfItsMember has another API server behind a member let its lists stand still.
func TestAGroupTakesNotAllListsOfItsMember(t *testing.T) {
	m := newMember(t, &rest.Config{Host: "http://member", Transport: &stops{begin: []byte(`{"items":[{}`)}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i := range 2 * listsAtOnce {
		from := m.source()
		from.resource = schema.GroupVersionResource{Group: "slow", Version: "v1", Resource: fmt.Sprint("things", i)}
		all.Go(func() { readAll(ctx, from, "list") }) //nolint:errcheck // the test ends it
	}
	require.Eventually(t, func() bool { return m.limiter.lists.count() == listsAtOnce/groupShare }, time.Minute, time.Millisecond)
	leave, err := m.source().takeList(t.Context())
	require.NoError(t, err)
	leave()
}

// TestAStreamingListHasToEndInTime has one go on for ever.
func TestAStreamingListHasToEndInTime(t *testing.T) {
	m := hostile(t, nil, func(w http.ResponseWriter, req *http.Request) {
		for req.Context().Err() == nil {
			io.WriteString(w, `{"type":"ADDED","object":{}}`+"\n") //nolint:errcheck // the client is gone
			w.(http.Flusher).Flush()
			sleep(req.Context(), 10*time.Millisecond)
		}
	})
	m.limiter.listTime = time.Second
	var limit *LimitError
	require.ErrorAs(t, readAll(t.Context(), m.source(), "initial"), &limit)
	assert.Equal(t, limitListTime, limit.Limit)
	assert.Zero(t, m.limiter.lists.count())
}

// TestAListThatWaitsForOthersDoesNotStandStill holds that the time for the next object does not run until the list is asked for.
func TestAListThatWaitsForOthersDoesNotStandStill(t *testing.T) {
	m := newMember(t, &rest.Config{Host: "http://member", Transport: &stops{}}, nil)
	defer takeAll(t, m.limiter.lists)()
	from := m.source()
	from.follows = &following{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- readAll(ctx, from, "initial") }()
	require.Eventually(t, func() bool { return from.follows.unwritten.Load() == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	assert.Zero(t, from.follows.unwritten.Load())
}
