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
	// searchesOfUser is how many searches of a user the database works on at once, of less than half of its connections for reading. Others of
	// this user wait.
	searchesOfUser = 5
	// turnTimeout is how long a search waits for others of its user.
	turnTimeout = 10 * time.Second
	// judgedOfUser is how many watches of a user look at an object at once. The others wait, and have no part of the processors meanwhile.
	judgedOfUser = 1
	// watchTurnTimeout is how long a watch waits for others of its user until it ends.
	watchTurnTimeout = 30 * time.Second
)

// turns let each user have some of something at a time, and count the ServiceAccounts of a namespace as one user. Priority and fairness
// does not know how few searches a database can work on at once, and does not count watches that have begun.
type turns struct {
	// most is how many turns a user has at a time.
	most int

	mu    sync.Mutex
	users map[string]*queue
}

func newTurns(most int) *turns { return &turns{most: most, users: map[string]*queue{}} }

// queue is of one user, as long as a search of this user runs or waits.
type queue struct {
	slots chan struct{}
	in    int
}

// take returns when a user has a turn. Call release after it. The error is 429 if others of this user take longer than a timeout.
func (t *turns) take(ctx context.Context, timeout time.Duration) (release func(), err error) {
	name := ownerOf(ctx)
	t.mu.Lock()
	q := t.users[name]
	if q == nil {
		q = &queue{slots: make(chan struct{}, t.most)}
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
	release = func() { <-q.slots; leave() }
	select {
	case q.slots <- struct{}{}:
		return release, nil
	default:
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case q.slots <- struct{}{}:
		return release, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = apierrors.NewTooManyRequests("other searches or watches of this user take long: wait for them, or ask for less", 1)
	}
	leave()
	return nil, err
}
