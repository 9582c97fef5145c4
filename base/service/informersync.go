// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"reflect"
	"sync/atomic"

	"k8s.io/client-go/informers"
)

// Informers are the informers of a factory. Once settled, they are not asked again whether they are in sync: they stay in sync for ever.
type Informers struct {
	informers.SharedInformerFactory

	settled atomic.Pointer[map[reflect.Type]bool]
}

// NewInformers returns the informers of a factory.
func NewInformers(factory informers.SharedInformerFactory) *Informers {
	return &Informers{SharedInformerFactory: factory}
}

// Settle says that all informers were started and that the server found them in sync.
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
