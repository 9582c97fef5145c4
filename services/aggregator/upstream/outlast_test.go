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
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		// before and after are what happens before the body breaks off, and soon after.
		before, after func(*cancellation, io.Closer)
		want          time.Duration
	}{
		"the replica does not answer": {want: cancelDelay},
		"the request has ended":       {before: func(c *cancellation, _ io.Closer) { c.end() }},
		"the request ends":            {after: func(c *cancellation, _ io.Closer) { c.end() }, want: time.Millisecond},
		"the replica has reset it":    {before: func(_ *cancellation, body io.Closer) { _ = body.Close() }},
		"the replica resets it":       {after: func(_ *cancellation, body io.Closer) { _ = body.Close() }, want: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://core/api", nil)
				require.NoError(t, err)
				_, cancellation := outlast(classified(t, req, routing.Target{Owner: routing.Core}))
				defer cancellation.end()
				body := cancellation.body(io.NopCloser(iotest.ErrReader(broken)))
				if test.before != nil {
					test.before(cancellation, body)
				}
				if test.after != nil {
					time.AfterFunc(time.Millisecond, func() { test.after(cancellation, body) })
				}
				began := time.Now()
				_, err = body.Read(make([]byte, 1))
				assert.ErrorIs(t, err, broken)
				assert.Equal(t, test.want, time.Since(began))
			})
		})
	}
}
