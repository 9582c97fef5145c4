// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tripod-k8s/tripod/apiservice/storages"
)

func TestAGateOutlastsTheProcess(t *testing.T) {
	s := open(t, Options{})
	gated := func() storages.Gated { return s.Interface.(storages.Gated) }
	restart := func() {
		s.stop()
		s.open()
	}
	require.NoError(t, gated().SetGate(t.Context(), "", "one"))
	require.NoError(t, gated().SetGate(t.Context(), "one", "other"))
	restart()
	move, err := gated().Gate(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "other", move)
	_, err = s.create("a", "1")
	assert.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
	require.NoError(t, gated().SetGate(t.Context(), "other", ""))
	restart()
	_, err = s.create("a", "1")
	require.NoError(t, err)
}
