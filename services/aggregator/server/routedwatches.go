// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// routedWatches ends watches when another backend gets their group-version: the former one would report nothing of what clients write
// then. Clients resume them at the next one.
type routedWatches struct {
	table *routing.Table

	mu   sync.Mutex
	byGV map[schema.GroupVersion]map[*routedWatch]bool
}

// routedWatch is a watch that a backend answers.
type routedWatch struct {
	owner routing.Owner
	end   func()
}

// follow has end called once another backend has the group-version of a watch, until the caller calls done.
func (r *routedWatches) follow(class *routing.Request, end func()) (done func()) {
	if r == nil || class.Kind != routing.Watch {
		return func() {}
	}
	gv := schema.GroupVersion{Group: class.Info.APIGroup, Version: class.Info.APIVersion}
	watch := &routedWatch{class.Owner, end}
	r.mu.Lock()
	if r.byGV == nil {
		r.byGV = map[schema.GroupVersion]map[*routedWatch]bool{}
	}
	if r.byGV[gv] == nil {
		r.byGV[gv] = map[*routedWatch]bool{}
	}
	r.byGV[gv][watch] = true
	r.mu.Unlock()
	r.reconsider(gv) // the table may have changed since the request was routed
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if delete(r.byGV[gv], watch); len(r.byGV[gv]) == 0 {
			delete(r.byGV, gv)
		}
	}
}

// reconsider ends the watches of a group-version that another backend has now.
func (r *routedWatches) reconsider(gv schema.GroupVersion) {
	owner := r.table.GroupVersion(gv).Owner
	if owner == routing.Unknown {
		return
	}
	r.mu.Lock()
	var ends []func()
	for watch := range r.byGV[gv] {
		if watch.owner != owner {
			delete(r.byGV[gv], watch)
			ends = append(ends, watch.end)
		}
	}
	r.mu.Unlock()
	for _, end := range ends {
		end()
	}
}
