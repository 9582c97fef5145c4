// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	for name, test := range map[string]struct {
		ends, pause, took time.Duration
		over              bool
	}{
		"to its end":       {time.Hour, time.Minute, time.Minute, true},
		"the context ends": {time.Second, time.Minute, time.Second, false},
		"it has ended":     {0, time.Minute, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.ends)
				defer cancel()
				began := time.Now()
				if over := For(ctx, test.pause); over != test.over || time.Since(began) != test.took {
					t.Errorf("over %v after %v", over, time.Since(began))
				}
			})
		})
	}
}
