// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package deepstack

import "testing"

// deep takes about 16 KiB of stack, in frames of the size that handlers have.
//
//go:noinline
func deep(n int, above *int) int {
	var frame [16]int
	frame[n%len(frame)] = *above
	if n == 0 {
		return frame[0]
	}
	return deep(n-1, &frame[n%len(frame)]) + frame[0]
}

func inGoroutine(f func()) {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	<-done
}

func BenchmarkGoroutine(b *testing.B) {
	const frames = 80
	b.Run("grown at once", func(b *testing.B) {
		for b.Loop() {
			inGoroutine(func() {
				Grow()
				deep(frames, new(int))
			})
		}
	})
	b.Run("growing", func(b *testing.B) {
		for b.Loop() {
			inGoroutine(func() { deep(frames, new(int)) })
		}
	})
}
