// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestABusyConsoleRefusesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		served := NewPlaces(2, 3).Bound(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave }))
		began := time.Now()
		answers := make(chan *httptest.ResponseRecorder, 10)
		send := func() {
			answer := httptest.NewRecorder()
			served.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
			answers <- answer
		}
		for range 2 + 3 {
			go send()
		}
		synctest.Wait()
		send()
		refused := <-answers
		assert.Equal(t, http.StatusServiceUnavailable, refused.Code)
		assert.Equal(t, "1", refused.Header().Get("Retry-After"))
		assert.Zero(t, time.Since(began))
		close(leave)
		for range 2 + 3 {
			assert.Equal(t, http.StatusOK, (<-answers).Code, "these have waited")
		}
	})
}

func TestARequestWaitsAsLongAsAPageTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		places := NewPlaces(1, 1)
		free, err := places.Take(t.Context())
		require.NoError(t, err)
		began, answer := time.Now(), httptest.NewRecorder()
		places.Bound(http.NotFoundHandler()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
		assert.Equal(t, PageTimeout, time.Since(began))
		gone, leave := context.WithCancel(t.Context())
		leave()
		_, err = places.Take(gone)
		require.ErrorIs(t, err, context.Canceled)
		free()
		free, err = places.Take(t.Context())
		require.NoError(t, err, "those that have left have no place")
		free()
	})
}
