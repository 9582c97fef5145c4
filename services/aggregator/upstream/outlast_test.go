// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// outlasts returns how long a request to a replica continues after the client has cancelled its own.
func outlasts(t *testing.T, owner routing.Owner, answered bool) (after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://core/api", nil)
	require.NoError(t, err)
	out, cancellation := outlast(classified(t, req, routing.Target{Owner: owner}))
	defer cancellation.end()
	if answered {
		assert.True(t, cancellation.answer(), "nobody wants the answer")
	}
	began := time.Now()
	cancel()
	<-out.Context().Done()
	if !answered {
		assert.False(t, cancellation.answer(), "somebody still wants an answer")
	}
	return time.Since(began)
}

func TestARequestThatItsClientTakesBackGoesOnUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, cancelDelay, outlasts(t, routing.Core, false), "without an answer")
		assert.Zero(t, outlasts(t, routing.Core, true), "with an answer")
		assert.Zero(t, outlasts(t, "", false), "a request of the aggregator's own")
	})
}

func TestABodyThatBreaksOffDoesNotEndItsRequestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		for answered, want := range map[bool]time.Duration{false: cancelDelay, true: 0} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://core/api", nil)
			require.NoError(t, err)
			_, cancellation := outlast(classified(t, req, routing.Target{Owner: routing.Core}))
			began := time.Now()
			if answered {
				cancellation.end()
			}
			_, err = cancellation.body(io.NopCloser(iotest.ErrReader(broken))).Read(make([]byte, 1))
			assert.ErrorIs(t, err, broken)
			assert.Equal(t, want, time.Since(began), "answered %v", answered)
			cancellation.end()
		}
	})
}
