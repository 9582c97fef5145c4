// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"container/list"
	"reflect"
	"sync"
	"time"
)

// cache keeps the grants of readers in clusters, those used last. A size bounds it rather than a number: a reader may have one rule or
// thousands.
type cache struct {
	mu sync.Mutex
	// size and most are in grants and namespaces.
	size, most int
	used       *list.List
	entries    map[string]map[string]*list.Element // by cluster and reader
	// serials are those of the states that clusters have now. Grants of older ones are not kept: they hold the objects of these in memory.
	serials map[string]int64
}

// cached is what one state of a cluster grants a reader. That is nothing, too, where it could not be determined.
type cached struct {
	cluster, reader string
	serial          int64
	grants          grants
	// until is when to evaluate again although nothing has changed, or zero.
	until time.Time
	size  int
}

func newCache(most int) *cache {
	return &cache{most: most, used: list.New(), entries: map[string]map[string]*list.Element{}, serials: map[string]int64{}}
}

func (c *cache) get(cluster, reader string, serial int64) (grants, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[cluster][reader]
	if e == nil {
		return nil, false
	}
	if one := e.Value.(*cached); one.serial != serial || !one.until.IsZero() && time.Now().After(one.until) {
		return nil, false
	}
	c.used.MoveToFront(e)
	return e.Value.(*cached).grants, true
}

// bytesOfGrant is about the memory of a grant or of the name of a namespace.
const bytesOfGrant = 32

func (c *cache) add(one cached) {
	one.size = 8 + len(one.reader)/bytesOfGrant + one.grants.size()
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.serial < c.serials[one.cluster] {
		return
	}
	if e := c.entries[one.cluster][one.reader]; e != nil {
		c.remove(e)
	}
	if c.entries[one.cluster] == nil {
		c.entries[one.cluster] = map[string]*list.Element{}
	}
	c.entries[one.cluster][one.reader] = c.used.PushFront(&one)
	for c.size += one.size; c.size > c.most; {
		c.remove(c.used.Back())
	}
}

func (c *cache) remove(e *list.Element) {
	one := c.used.Remove(e).(*cached)
	c.size -= one.size
	if delete(c.entries[one.cluster], one.reader); len(c.entries[one.cluster]) == 0 {
		delete(c.entries, one.cluster)
	}
}

// replace forgets the grants of a cluster that has another state now, or none for 0.
func (c *cache) replace(cluster string, serial int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serials[cluster] = serial; serial == 0 {
		delete(c.serials, cluster)
	}
	for _, e := range c.entries[cluster] {
		c.remove(e)
	}
}

func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used.Len()
}

// size returns how many grants and namespaces there are. Grants may share namespaces.
func (g grants) size() int {
	n, seen := len(g), map[uintptr]bool{}
	for _, one := range g {
		if at := reflect.ValueOf(one.namespaces).Pointer(); !seen[at] {
			seen[at] = true
			n += len(one.namespaces)
		}
	}
	return n
}
