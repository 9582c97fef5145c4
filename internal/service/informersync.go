// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"reflect"
	"sync/atomic"

	"k8s.io/client-go/informers"
)

// Informers is informers that are not asked any more whether they are in sync once that is settled: they never fall out of it.
type Informers struct {
	informers.SharedInformerFactory

	settled atomic.Pointer[map[reflect.Type]bool]
}

// NewInformers returns the informers of a factory.
func NewInformers(factory informers.SharedInformerFactory) *Informers {
	return &Informers{SharedInformerFactory: factory}
}

// Settle is to be called when all informers have been started and the server has found them in sync.
func (f *Informers) Settle() {
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
func (f *Informers) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	if settled := f.settled.Load(); settled != nil {
		return *settled
	}
	return f.SharedInformerFactory.WaitForCacheSync(stop)
}
