// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// invalidate has the cache receive the invalidations of a service account, up to sequence.
func invalidate(t *testing.T, c *cache, sequence uint64, uid string) {
	t.Helper()
	message := &identityv1.WatchResponse{Run: "run", Sequence: sequence}
	for next := c.sequence + 1; next <= sequence; next++ {
		message.Invalidations = append(message.Invalidations, &identityv1.Invalidation{Sequence: next, Dependency: serviceAccount(uid)})
	}
	if _, err := c.apply(message); err != nil {
		t.Fatal(err)
	}
}

// of returns an answer that depends on the service account "1", as it is after the invalidation with that sequence.
func of(run string, sequence uint64) *answer {
	message := is("jane", "1")
	message.Run, message.Sequence = run, sequence
	return newAnswer(message, time.Now())
}

func TestAnAnswerIsKeptOnlyIfItsEndWillBeHeardOf(t *testing.T) {
	without := func(change func(*identityv1.AuthenticateResponse)) *answer {
		message := is("jane", "1")
		message.Run, message.Sequence = "run", 10
		change(message)
		return newAnswer(message, time.Now())
	}
	tests := []struct {
		name string
		// before is what happens before the answer comes to a cache that follows from sequence 10 of the run.
		before func(*testing.T, *cache)
		answer *answer
		want   use
	}{
		{name: "an answer of now", answer: of("run", 10), want: hit},
		{name: "of the future", answer: of("run", 12), want: hit},
		{name: "of before the stream", answer: of("run", 9), want: miss},
		{name: "of another run", answer: of("other", 10), want: miss},
		{name: "overtaken by the end of what it depends on", answer: of("run", 10), want: miss,
			before: func(t *testing.T, c *cache) { invalidate(t, c, 11, "1") }},
		{name: "that knows of it", answer: of("run", 11), want: hit,
			before: func(t *testing.T, c *cache) { invalidate(t, c, 11, "1") }},
		{name: "overtaken by the end of something else", answer: of("run", 10), want: hit,
			before: func(t *testing.T, c *cache) { invalidate(t, c, 11, "2") }},
		{name: "overtaken first by that, and then by something else", answer: of("run", 10), want: miss,
			before: func(t *testing.T, c *cache) { invalidate(t, c, 11, "1"); invalidate(t, c, 12, "2") }},
		{name: "overtaken by more than is remembered", answer: of("run", 10), want: miss,
			before: func(t *testing.T, c *cache) { invalidate(t, c, 11+maxInvalidations, "2") }},
		{name: "overtaken by as much as is remembered", answer: of("run", 10), want: hit,
			before: func(t *testing.T, c *cache) { invalidate(t, c, 10+maxInvalidations, "2") }},
		{name: "when the stream is lost", answer: of("run", 10), want: miss,
			before: func(_ *testing.T, c *cache) { c.unfollow() }},
		{name: "when another is followed", answer: of("run", 10), want: miss,
			before: func(_ *testing.T, c *cache) { c.follow("other", 10) }},
		{name: "when the same run is followed again, after an invalidation", answer: of("run", 10), want: miss,
			before: func(_ *testing.T, c *cache) { c.unfollow(); c.follow("run", 11) }},
		{name: "for one use", want: miss, answer: without(func(m *identityv1.AuthenticateResponse) { m.FreshFor = nil })},
		{name: "for less than one use", want: miss, answer: without(func(m *identityv1.AuthenticateResponse) { m.FreshFor = durationpb.New(-time.Second) })},
		{name: "that has ended", want: miss, answer: without(func(m *identityv1.AuthenticateResponse) { m.ValidFor = durationpb.New(0) })},
		{name: "that depends on nothing", want: hit, answer: without(func(m *identityv1.AuthenticateResponse) { m.Dependencies = nil })},
		{name: "that depends on something without a name", want: miss,
			answer: without(func(m *identityv1.AuthenticateResponse) {
				m.Dependencies[0].Kind = identityv1.Dependency_KIND_UNSPECIFIED
			})},
		{name: "that is not good", want: miss, answer: without(func(m *identityv1.AuthenticateResponse) { m.User = nil })},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCache(time.Minute)
			c.follow("run", 10)
			if test.before != nil {
				test.before(t, c)
			}
			c.put(key{1}, test.answer)
			if _, got := c.get(key{1}); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestSilenceIsALossWithoutBeingNoticedByAnybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(30 * time.Second)
		c.follow("run", 0)
		c.put(key{1}, of("run", 0))
		at := func(after time.Duration, want use) {
			t.Helper()
			time.Sleep(after)
			if _, got := c.get(key{1}); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		at(3*time.Second, hit)
		at(time.Nanosecond, grace)
		at(30*time.Second-2*time.Nanosecond, grace)
		at(time.Nanosecond, miss)
		// A request that notices now does not begin another period of grace.
		c.unfollow()
		at(0, miss)
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	c := newCache(time.Minute)
	c.follow("run", 0)
	for i := range 2 * maxAnswers {
		message := is("jane", strconv.Itoa(i))
		message.Dependencies = append(message.Dependencies, serviceAccount("of all"))
		message.Run = "run"
		c.put(key{byte(i), byte(i >> 8), byte(i >> 16)}, newAnswer(message, time.Now()))
	}
	if got := c.state(time.Now()).entries; got != maxAnswers {
		t.Errorf("there are %d answers, want %d", got, maxAnswers)
	}
	if got := len(c.dependents); got != maxAnswers+1 {
		t.Errorf("there are %d dependencies, want %d", got, maxAnswers+1)
	}
	invalidate(t, c, 1, "of all")
	if entries, dependencies := c.state(time.Now()).entries, len(c.dependents); entries != 0 || dependencies != 0 {
		t.Errorf("%d answers and %d dependencies are left", entries, dependencies)
	}
}

func TestGraceIsForAnswersThatHeldWhenCoreWasLost(t *testing.T) {
	for _, test := range []struct {
		name     string
		received bool
		// age is that of the answer, which is fresh for 10 s, when core is lost.
		age  time.Duration
		want use
	}{
		{name: "fresh", age: 9 * time.Second, want: grace},
		{name: "not fresh, and no revocation would have arrived", age: 10 * time.Second, want: miss},
		{name: "an hour old, and core would have sent a revocation", received: true, age: time.Hour, want: grace},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCache(30 * time.Second)
				c.follow("run", 0)
				message := is("jane", "1")
				message.Run, message.FreshFor, message.RevocationIsTold = "run", durationpb.New(10*time.Second), test.received
				c.put(key{1}, newAnswer(message, time.Now()))
				for end := time.Now().Add(test.age); time.Now().Before(end); time.Sleep(time.Second) {
					if _, err := c.apply(&identityv1.WatchResponse{Run: "run"}); err != nil {
						t.Fatal(err)
					}
				}
				c.unfollow()
				for _, after := range []time.Duration{0, 29 * time.Second} {
					time.Sleep(after)
					if _, got := c.get(key{1}); got != test.want {
						t.Errorf("%s later: %s, want %s", after, got, test.want)
					}
				}
			})
		})
	}
}
