// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// watchesOfUser and watchesOfAll are how many watches a user and all users may have at this replica. Each takes some 100 kB. Priority and
// fairness does not count watches that have begun.
const watchesOfUser, watchesOfAll = 1000, 3000

// watchLimiter bounds the watches. Users share them as they share the memory for answers.
type watchLimiter struct {
	mu    sync.Mutex
	all   int64
	users map[string]int64
}

// acquire counts a watch. Call release at its end. The error is 429 if there are too many.
func (l *watchLimiter) acquire(ctx context.Context) (release func(), err error) {
	owner := ownerOf(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.users[owner] >= watchesOfUser:
		return nil, apierrors.NewTooManyRequests(
			fmt.Sprintf("this user has %d watches: end some, or watch all clusters or namespaces at once", watchesOfUser), 10)
	case l.all >= watchesOfAll || l.users[owner] >= shareOf(watchesOfAll, l.users, owner):
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("this replica of search has %d of %d watches: try again, or run more replicas",
			l.all, watchesOfAll), 10)
	}
	if l.users == nil {
		l.users = map[string]int64{}
	}
	l.users[owner]++
	l.all++
	return func() { l.release(owner) }, nil
}

func (l *watchLimiter) release(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.users[owner]--; l.users[owner] == 0 {
		delete(l.users, owner)
	}
}
