// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/apiservice/storagetest"
)

func TestRules(t *testing.T) {
	storagetest.Run(t, storagetest.Options{
		Open: func(t *testing.T, r storages.Resource) storage.Interface {
			store, stop, err := Open(r)
			require.NoError(t, err)
			t.Cleanup(stop)
			return store
		},
		Compact: func(_ context.Context, _ *testing.T, s storage.Interface, revision int64) {
			s.(interface{ Compact(int64) }).Compact(revision)
		},
	})
}
