// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"sync"

	"github.com/google/uuid"

	"github.com/tripod-k8s/tripod/base/broadcast"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// keptInvalidations is the number of invalidations in the log. A large cluster needs many seconds to fill it, so slow watchers can catch
// up.
const keptInvalidations = 8192

// invalidations is the log of changes. They are numbered from 1.
type invalidations struct {
	run string

	mu     sync.Mutex
	kept   []*identityv1.Invalidation
	latest uint64
	// more wakes watchers when add adds an invalidation.
	more broadcast.Broadcast
}

func newInvalidations() *invalidations {
	return &invalidations{run: uuid.NewString()}
}

func (i *invalidations) add(dependency *identityv1.Dependency, resourceVersion string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.latest++
	if len(i.kept) == keptInvalidations {
		i.kept = append(i.kept[:0:0], i.kept[keptInvalidations/2:]...)
	}
	i.kept = append(i.kept, &identityv1.Invalidation{Sequence: i.latest, Dependency: dependency, ResourceVersion: resourceVersion})
	i.more.Send()
}

// last returns the number of the latest invalidation, or 0.
func (i *invalidations) last() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.latest
}

// after returns a channel that is closed as soon as the log has an invalidation after number.
func (i *invalidations) after(number uint64) <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.latest > number {
		return closed
	}
	return i.more.Next()
}

// since returns the invalidations after number. It returns false if the log has dropped some of them.
func (i *invalidations) since(number uint64) ([]*identityv1.Invalidation, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	count := i.latest - number
	if count > uint64(len(i.kept)) {
		return nil, false
	}
	return append([]*identityv1.Invalidation(nil), i.kept[uint64(len(i.kept))-count:]...), true
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
