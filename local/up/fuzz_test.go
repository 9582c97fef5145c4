// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asked is an instance that remembers what it was asked.
type asked struct {
	over    *time.Duration
	wanted  *scaleRequest
	stopped bool
	after   *int64
}

func (a *asked) observe(_ context.Context, after int64) *Observation {
	a.after = &after
	return &Observation{}
}

func (a *asked) stop() { a.stopped = true }

func (a *asked) statuses(_ context.Context, over time.Duration) []Status {
	a.over = &over
	return nil
}

func (a *asked) scale(_ context.Context, wanted scaleRequest, tell func(string)) error {
	a.wanted = &wanted
	tell(wanted.Service)
	return nil
}

// FuzzControl sends any request to the control socket. The instance does what the request asks, or the answer has the error.
func FuzzControl(f *testing.F) {
	f.Add(http.MethodGet, statusPath, overParameter+"=1s", "")
	f.Add(http.MethodGet, statusPath, overParameter+"=-1s&"+overParameter+"=x", "")
	f.Add(http.MethodGet, observePath, afterParameter+"=17", "")
	f.Add(http.MethodGet, observePath, afterParameter+"=-1", "")
	f.Add(http.MethodPost, scalePath, "", `{"service":"core","replicas":3}`)
	f.Add(http.MethodPost, scalePath, "", `{"service":"core","replicas":-3}{"service":"extensions"}`)
	f.Add(http.MethodPost, scalePath, "", `{"service":7}`)
	f.Add(http.MethodPost, stopPath, "", "")
	f.Add(http.MethodPut, "/../scale", "%zz", "null")
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://tripod", strings.NewReader(body))
		if err != nil {
			return
		}
		req.URL.Path, req.URL.RawQuery = path, query
		a := &asked{}
		answer := httptest.NewRecorder()
		(&control{instance: a}).handler().ServeHTTP(answer, req)
		switch {
		case answer.Code != http.StatusOK:
			require.Nil(t, a.over)
			require.Nil(t, a.after)
			require.Nil(t, a.wanted)
			require.False(t, a.stopped)
		case path == stopPath:
			require.Equal(t, http.MethodPost, method)
			require.True(t, a.stopped)
		case path == observePath:
			require.GreaterOrEqual(t, *a.after, int64(0))
		case path == statusPath:
			want, err := time.ParseDuration(req.URL.Query().Get(overParameter))
			if req.URL.Query().Get(overParameter) != "" {
				require.NoError(t, err)
			}
			require.Equal(t, want, *a.over)
			require.GreaterOrEqual(t, want, time.Duration(0))
		default:
			require.Equal(t, http.MethodPost+scalePath, method+path)
			var wanted scaleRequest
			require.NoError(t, json.NewDecoder(strings.NewReader(body)).Decode(&wanted))
			require.Equal(t, wanted, *a.wanted)
		}
	})
}

// FuzzScaleAnswer reads any answer of an instance to tripod scale. It ends with the first message that has a result, or with an error.
func FuzzScaleAnswer(f *testing.F) {
	f.Add(`{"line":"a"}{"line":"b"}{"done":true}`)
	f.Add(`{"line":"a"}{"error":"no"}{"done":true}`)
	f.Add(`{"done":false}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, answer string) {
		var lines int
		failed, err := readScale(json.NewDecoder(strings.NewReader(answer)), func(string) { lines++ })
		var message scaleMessage
		messages := json.NewDecoder(strings.NewReader(answer))
		for range lines {
			message = scaleMessage{}
			require.NoError(t, messages.Decode(&message))
			require.True(t, message.Error == "" && !message.Done)
		}
		message = scaleMessage{}
		if decodes := messages.Decode(&message); decodes != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		if message.Error != "" {
			require.EqualError(t, failed, message.Error)
			return
		}
		require.True(t, message.Done)
		require.NoError(t, failed)
	})
}
