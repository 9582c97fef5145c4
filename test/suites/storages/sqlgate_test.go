// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storages

import (
	stdsql "database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tripod-k8s/tripod/apiservice/storages"
)

func TestReplicasHaveOneGate(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		one, stop := replica(t, open(), never)
		other, _ := replica(t, open(), never)
		create(t, one, "a")
		require.NoError(t, one.(storages.Gated).SetGate(t.Context(), "", "m"))
		err := count(t.Context(), other, "a")
		assert.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		require.NoError(t, count(storages.ByMove(t.Context(), "m"), other, "a"))
		stop()
		later, _ := replica(t, open(), never)
		move, err := later.(storages.Gated).Gate(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "m", move)
		require.ErrorIs(t, later.(storages.Gated).SetGate(t.Context(), "", "n"), storages.ErrGate)
		require.NoError(t, later.(storages.Gated).SetGate(t.Context(), "m", ""))
		require.NoError(t, count(t.Context(), other, "a"))
		assert.Len(t, listOf(t, other, "").Items, 1)
	})
}
