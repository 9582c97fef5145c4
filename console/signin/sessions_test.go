// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/console/pages"
)

const host = "console.example.com"

var noPages = &pages.Pages{Handler: http.NotFoundHandler(), End: func() {}}

// uses has a browser use a session, and returns whether it goes on.
func uses(s *sessions, k key) bool {
	found, done := s.use(k, host, true)
	if found != nil {
		done()
	}
	return found != nil
}

func TestASessionEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(30*time.Minute, 2*time.Hour)
		idle, used := keyOf("idle"), keyOf("used")
		s.begin(idle, "ann", host, noPages)
		s.begin(used, "ann", host, noPages)
		for range 5 {
			time.Sleep(20 * time.Minute)
			assert.True(t, uses(s, used))
		}
		assert.False(t, uses(s, idle), "30 minutes without a request")
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		assert.Empty(t, s.all, "its requests do not prolong a session beyond its lifetime, and no request is needed to forget the token")
		assert.False(t, uses(s, used))
	})
}

// TestAPageThatRenewsItselfDoesNotProlongASession has a browser without a person in front of it.
func TestAPageThatRenewsItselfDoesNotProlongASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(30*time.Minute, 2*time.Hour)
		ended := 0
		s.begin(keyOf("a"), "ann", host, &pages.Pages{Handler: http.NotFoundHandler(), End: func() { ended++ }})
		for range 29 {
			time.Sleep(time.Minute)
			found, done := s.use(keyOf("a"), host, false)
			require.NotNil(t, found)
			done()
		}
		assert.Zero(t, ended)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, s.all)
		assert.Equal(t, 1, ended, "what follows services ends with the session")
	})
}

func TestAShortLifetimeEndsASessionThatIsNotIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(time.Hour, time.Minute)
		s.begin(keyOf("a"), "ann", host, noPages)
		time.Sleep(59 * time.Second)
		assert.True(t, uses(s, keyOf("a")))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, s.all)
	})
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(time.Hour, time.Hour)
		defer func() {
			for k := range s.all { // the timers
				s.end(k)
			}
		}()
		of := func(user string, i int) key { return keyOf(fmt.Sprint(user, i)) }
		s.begin(of("tom", 0), "tom", host, noPages)
		for i := range maxOfUser {
			s.begin(of("ann", i), "ann", host, noPages)
			time.Sleep(time.Second)
		}
		require.True(t, uses(s, of("ann", 0)))
		s.begin(of("ann", maxOfUser), "ann", host, noPages)
		assert.False(t, uses(s, of("ann", 1)), "the one that was unused for longest")
		assert.True(t, uses(s, of("ann", 0)))
		assert.True(t, uses(s, of("tom", 0)), "another user has lost nothing")

		for i := 0; len(s.all) < maxSessions; i++ {
			s.begin(of("many", i), fmt.Sprint("user-", i), host, noPages)
		}
		s.begin(keyOf("more"), "more", host, noPages)
		assert.False(t, uses(s, of("ann", 2)), "the longest-unused one of the user with most")
		assert.True(t, uses(s, keyOf("more")))
		assert.Equal(t, maxOfUser-1, s.users["ann"].sessions)
		for i := range maxOfUser - 2 {
			s.begin(of("later", i), fmt.Sprint("later-", i), host, noPages)
		}
		assert.Equal(t, 1, s.users["ann"].sessions)
		assert.True(t, uses(s, of("tom", 0)), "its user has one")
		s.begin(of("later", maxOfUser), "ann", host, noPages)
		assert.Len(t, s.all, maxSessions)
	})
}

func TestAUserIsForgottenWithTheLastSession(t *testing.T) {
	t.Parallel()
	s := newSessions(time.Hour, time.Hour)
	one, two := keyOf("one"), keyOf("two")
	s.begin(one, "ann", host, noPages)
	first, done := s.use(one, host, true)
	s.end(one)
	s.begin(two, "ann", host, noPages)
	second, doneToo := s.use(two, host, true)
	assert.Same(t, first.owner.places, second.owner.places, "a request goes on, so another session gets no places of its own")
	done()
	doneToo()
	assert.Len(t, s.users, 1)
	s.end(two)
	assert.Empty(t, s.users)
}
