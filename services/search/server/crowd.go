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

// crowd counts the watches. Users share them as they share the memory for answers.
type crowd struct {
	mu    sync.Mutex
	all   int64
	users map[string]int64
}

// enter counts a watch. Call leave at its end. The error is 429 if there are too many.
func (c *crowd) enter(ctx context.Context) (leave func(), err error) {
	owner := ownerOf(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.users[owner] >= watchesOfUser:
		return nil, apierrors.NewTooManyRequests(
			fmt.Sprintf("this user has %d watches: end some, or watch all clusters or namespaces at once", watchesOfUser), 10)
	case c.all >= watchesOfAll || c.users[owner] >= shareOf(watchesOfAll, c.users, owner):
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("this replica of search has %d of %d watches: try again, or run more replicas",
			c.all, watchesOfAll), 10)
	}
	if c.users == nil {
		c.users = map[string]int64{}
	}
	c.users[owner]++
	c.all++
	return func() { c.leave(owner) }, nil
}

func (c *crowd) leave(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.users[owner]--; c.users[owner] == 0 {
		delete(c.users, owner)
	}
}
