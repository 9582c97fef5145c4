// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

func TestAFloodOfUnknownTokensIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newTestCore("run")
		core.answer(token, is("alice", "1"))
		client := newTestClient(t, 0, core)
		expect(t, client, "alice") // and is known from now on

		// All that core is asked waits until it may answer.
		answers := make(chan struct{})
		var asked, most atomic.Int64
		const flood = maxQuestions + maxWaiting + 100
		for i := range flood {
			core.on(fmt.Sprint("bad", i), func() (*identityv1.AuthenticateResponse, error) {
				most.Store(max(most.Load(), asked.Add(1)))
				defer asked.Add(-1)
				<-answers
				return &identityv1.AuthenticateResponse{}, nil
			})
		}
		var unavailable, refused atomic.Int64
		var flooding sync.WaitGroup
		for i := range flood {
			flooding.Go(func() {
				_, ok, err := client.AuthenticateToken(t.Context(), fmt.Sprint("bad", i))
				var away *UnavailableError
				switch {
				case errors.As(err, &away):
					unavailable.Add(1)
				case !ok:
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		if got := asked.Load(); got != maxQuestions {
			t.Errorf("%d questions are under way, want %d", got, maxQuestions)
		}
		if got := unavailable.Load(); got != 100 {
			t.Errorf("%d requests got 503 at once, want 100", got)
		}
		expect(t, client, "alice")

		close(answers)
		flooding.Wait()
		if got := most.Load(); got > maxQuestions {
			t.Errorf("%d questions were under way", got)
		}
		if got := refused.Load(); got != maxQuestions+maxWaiting {
			t.Errorf("%d tokens were asked about, want %d", got, maxQuestions+maxWaiting)
		}
	})
}
