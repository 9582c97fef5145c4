// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package broadcast

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestASendWakesAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Broadcast
		b.Send() // wakes none, and keeps nothing for later
		woken := 0
		results := make(chan struct{})
		for range 3 {
			next := b.Next()
			go func() {
				<-next
				results <- struct{}{}
			}()
		}
		synctest.Wait()
		select {
		case <-results:
			require.Fail(t, "a waiter woke before there was news")
		default:
		}
		b.Send()
		for range 3 {
			<-results
			woken++
		}
		require.Equal(t, 3, woken)
	})
}

func TestEachSendHasAChannelOfItsOwn(t *testing.T) {
	var b Broadcast
	first := b.Next()
	require.Equal(t, first, b.Next())
	b.Send()
	<-first
	second := b.Next()
	select {
	case <-second:
		require.Fail(t, "the channel of the next change is closed already")
	default:
	}
	b.Send()
	<-second
}
