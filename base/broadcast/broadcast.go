// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package broadcast wakes all goroutines that wait for a change, also together with a context or a timer, which [sync.Cond] cannot.
package broadcast

import "sync"

// Broadcast wakes those that wait on its channel. The zero value is ready for use. To miss no change, read the state and the channel under
// one lock, and call Send under the same lock.
type Broadcast struct {
	mu   sync.Mutex
	next chan struct{}
}

// Next returns a channel that the next Send closes.
func (b *Broadcast) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Send closes the channel of Next.
func (b *Broadcast) Send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
