// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// searchesOfUser is how many searches of a user the database works on at once, of less than half of its connections for reading. Others of this user wait.
	searchesOfUser = 5
	// turnTimeout is how long a search waits for others of its user.
	turnTimeout = 10 * time.Second
)

// turns let each user have some searches at a time. Priority and fairness does not know how few a database can work on at once.
type turns struct {
	mu    sync.Mutex
	users map[string]*queue
}

// queue is of one user, as long as a search of this user runs or waits.
type queue struct {
	slots chan struct{}
	in    int
}

// take returns when a user has a turn. Call release after it. The error is 429 if others of this user take too long.
func (t *turns) take(ctx context.Context) (release func(), err error) {
	name := userOf(ctx)
	t.mu.Lock()
	if t.users == nil {
		t.users = map[string]*queue{}
	}
	q := t.users[name]
	if q == nil {
		q = &queue{slots: make(chan struct{}, searchesOfUser)}
		t.users[name] = q
	}
	q.in++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.in--; q.in == 0 {
			delete(t.users, name)
		}
	}
	late := time.NewTimer(turnTimeout)
	defer late.Stop()
	select {
	case q.slots <- struct{}{}:
		return func() { <-q.slots; leave() }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = apierrors.NewTooManyRequests("other searches of this user take long: wait for them", 1)
	}
	leave()
	return nil, err
}
