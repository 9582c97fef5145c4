// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package retry sleeps for as long as that is wanted.
package retry

import (
	"context"
	"time"
)

// For sleeps until the time is over or the context ends, and reports whether it was the time.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
