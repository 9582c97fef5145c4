// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informersync makes it cheap to ask whether informers are in sync. Each /readyz asks that, with a goroutine for each of thirty
// informers, and services ask one another twice a second: that was a third of what they do when there is nothing to do.
package informersync

import (
	"reflect"
	"sync/atomic"

	"k8s.io/client-go/informers"
)

// Factory is informers that are not asked any more whether they are in sync once that is settled: they never fall out of it.
type Factory struct {
	informers.SharedInformerFactory

	settled atomic.Pointer[map[reflect.Type]bool]
}

// New returns the informers of a factory.
func New(factory informers.SharedInformerFactory) *Factory {
	return &Factory{SharedInformerFactory: factory}
}

// Settle is to be called when all informers have been started and the server has found them in sync.
func (f *Factory) Settle() {
	now := make(chan struct{})
	close(now)
	synced := f.SharedInformerFactory.WaitForCacheSync(now)
	for _, is := range synced {
		if !is {
			return
		}
	}
	f.settled.Store(&synced)
}

// WaitForCacheSync implements informers.SharedInformerFactory.
func (f *Factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	if settled := f.settled.Load(); settled != nil {
		return *settled
	}
	return f.SharedInformerFactory.WaitForCacheSync(stop)
}
