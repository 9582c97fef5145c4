// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
)

var errAway = errors.New("connection refused")

// answer is the result of a RoundTripper.
type answer struct {
	status int
	err    error
}

func (a answer) roundTrip() (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status), Body: http.NoBody}, nil
}

func TestUntil(t *testing.T) {
	away := answer{err: errAway}
	for _, tc := range []struct {
		name string
		// answers come in turn; the last one repeats.
		answers []answer
		body    io.Reader
		timeout time.Duration
		// want is the number of attempts.
		want   int
		status int
		err    error
	}{
		{name: "an answer is an answer", answers: []answer{{status: 200}}, want: 1, status: 200},
		{name: "an informer waits until core is back", answers: []answer{away, away, away, {status: 200}}, want: 4, status: 200},
		{name: "a bad answer is an answer", answers: []answer{{status: 503}}, want: 1, status: 503},
		{name: "until the informer stops", answers: []answer{away}, timeout: retryInterval + 1, want: 2, err: errAway},
		{name: "who sends something does not wait", answers: []answer{away}, body: strings.NewReader("body"), want: 1, err: errAway},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.timeout)
					defer cancel()
				}
				attempts := 0
				w := Until(roundtrip.Func(func(*http.Request) (*http.Response, error) {
					attempts++
					return tc.answers[min(attempts, len(tc.answers))-1].roundTrip()
				}), WhileReading)
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://core/", tc.body)
				require.NoError(t, err)
				resp, err := w.RoundTrip(req)
				if !errors.Is(err, tc.err) || attempts != tc.want {
					t.Fatalf("%d attempts, %v; want %d, %v", attempts, err, tc.want, tc.err)
				}
				if err == nil && resp.StatusCode != tc.status {
					t.Errorf("status %d, want %d", resp.StatusCode, tc.status)
				}
			})
		})
	}
}
