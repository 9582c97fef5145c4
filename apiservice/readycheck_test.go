// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAReadyCheckIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		var result error
		check := newShared(ReadyCheck{Name: "database", Check: func(ctx context.Context, _ *Environment) error {
			calls++
			if result == nil {
				return nil
			}
			<-ctx.Done() // as a database that hangs
			return result
		}}, nil)
		ask := func(want error) {
			t.Helper()
			for range 10 {
				assert.Equal(t, want, check.Check(nil))
			}
		}
		ask(nil)
		assert.Equal(t, 1, calls)
		time.Sleep(checkFresh)
		result = errors.New("postgres://user:secret@host is away")
		before := time.Now()
		ask(errNotReady)
		assert.Equal(t, 2, calls)
		assert.Equal(t, checkTimeout, time.Since(before))
		time.Sleep(checkFresh)
		result = nil
		ask(nil)
		assert.Equal(t, 3, calls)
	})
}
