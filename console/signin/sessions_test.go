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
)

var noPages = http.NotFoundHandler()

func TestASessionEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(30*time.Minute, 2*time.Hour)
		idle, used := keyOf("idle"), keyOf("used")
		require.NoError(t, s.begin(idle, "ann", noPages))
		require.NoError(t, s.begin(used, "ann", noPages))
		for range 5 {
			time.Sleep(20 * time.Minute)
			assert.NotNil(t, s.use(used))
		}
		assert.Nil(t, s.use(idle), "30 minutes without a request")
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		assert.Empty(t, s.all, "its requests do not prolong a session beyond its lifetime, and no request is needed to forget the token")
		assert.Nil(t, s.use(used))
	})
}

func TestAShortLifetimeEndsASessionThatIsNotIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(time.Hour, time.Minute)
		require.NoError(t, s.begin(keyOf("a"), "ann", noPages))
		time.Sleep(59 * time.Second)
		assert.NotNil(t, s.use(keyOf("a")))
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
		require.NoError(t, s.begin(of("tom", 0), "tom", noPages))
		for i := range maxOfUser {
			require.NoError(t, s.begin(of("ann", i), "ann", noPages))
			time.Sleep(time.Second)
		}
		require.NotNil(t, s.use(of("ann", 0)))
		require.NoError(t, s.begin(of("ann", maxOfUser), "ann", noPages))
		assert.Nil(t, s.use(of("ann", 1)), "the one that was unused for longest")
		assert.NotNil(t, s.use(of("ann", 0)))
		assert.NotNil(t, s.use(of("tom", 0)), "another user has lost nothing")

		for i := 0; len(s.all) < maxSessions; i++ {
			require.NoError(t, s.begin(of("many", i), fmt.Sprint("user-", i), noPages))
		}
		assert.ErrorIs(t, s.begin(keyOf("more"), "more", noPages), errFull)
		assert.NoError(t, s.begin(keyOf("again"), "ann", noPages), "it replaces another one of its user")
		assert.Len(t, s.all, maxSessions)
	})
}

func TestFailuresOfAnAddressAreForgiven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a attempts
		one := networkOf("192.0.2.7:1")
		for range maxFailures {
			require.True(t, a.allowed(one))
			a.failed(one)
		}
		assert.False(t, a.allowed(networkOf("192.0.2.7:2")), "the port is another one at each connection")
		assert.True(t, a.allowed(networkOf("192.0.2.8:1")))
		time.Sleep(failurePause)
		assert.True(t, a.allowed(one))
		a.failed(one)
		assert.False(t, a.allowed(one))

		for i := range 3 * maxAddresses {
			a.failed(networkOf(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)))
		}
		assert.LessOrEqual(t, len(a.by), maxAddresses)
	})
	assert.Equal(t, networkOf("[2001:db8::1]:1"), networkOf("[2001:db8::ffff:2]:2"), "a host has a network")
	assert.NotEqual(t, networkOf("[2001:db8::1]:1"), networkOf("[2001:db8:0:1::1]:1"))
	assert.Equal(t, networkOf("192.0.2.7:1"), networkOf("[::ffff:192.0.2.7]:1"))
}
