// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory keeps objects in the memory of the process. They are gone when it ends. It is for what a service can find out again, such
// as states that nodes report, and for tests.
//
// Each replica of a service has objects of its own, so run such a service with one replica, also during upgrades: strategy Recreate.
package memory

import (
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/apiservice/internal/revisions"
	"github.com/tripod-k8s/tripod/apiservice/storages"
)

// Options bound the memory. Zero values take the defaults.
type Options struct {
	// MaxBytes bounds the encoded objects, 256 MiB by default. A write beyond it gets the status 507. Decoded objects take several times as
	// much.
	MaxBytes int64
	// HistoryChanges and HistoryBytes bound the latest changes, from which watches go on and of which pages of lists are: 10,000 changes and
	// 64 MiB by default. Clients that ask for older ones get 410 and list again.
	HistoryChanges int
	HistoryBytes   int64
}

// Open keeps the objects of a resource in memory, with the default limits. It is a [storages.Open].
func Open(r storages.Resource) (storage.Interface, func(), error) { return Options{}.Open(r) }

// Open keeps the objects of a resource in memory. It is a [storages.Open].
func (o Options) Open(r storages.Resource) (storage.Interface, func(), error) {
	store, err := revisions.New(r, revisions.Options(o))
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}
