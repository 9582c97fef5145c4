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
	// queueTimeout is how long a search waits for others of its user.
	queueTimeout = 10 * time.Second
	// judgedOfUser is how many watches of a user look at an object at once. The others wait, and have no part of the processors meanwhile.
	judgedOfUser = 1
	// watchQueueTimeout is how long a watch waits for others of its user until it ends.
	watchQueueTimeout = 30 * time.Second
)

// userLimiter bounds what each user does at once, and counts the ServiceAccounts of a namespace as one user. Priority and fairness
// does not know how few searches a database can work on at once, and does not count watches that have begun.
type userLimiter struct {
	// most is how many slots a user has.
	most int

	mu    sync.Mutex
	users map[string]*queue
}

func newUserLimiter(most int) *userLimiter {
	return &userLimiter{most: most, users: map[string]*queue{}}
}

// queue is of one user, as long as a search of this user runs or waits.
type queue struct {
	slots chan struct{}
	in    int
}

// acquire returns when a user has a slot. Call release after it. The error is 429 if others of this user take longer than a timeout.
func (l *userLimiter) acquire(ctx context.Context, timeout time.Duration) (release func(), err error) {
	name := ownerOf(ctx)
	l.mu.Lock()
	q := l.users[name]
	if q == nil {
		q = &queue{slots: make(chan struct{}, l.most)}
		l.users[name] = q
	}
	q.in++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if q.in--; q.in == 0 {
			delete(l.users, name)
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
