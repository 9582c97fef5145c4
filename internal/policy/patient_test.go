// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errAway = errors.New("connection refused")

func TestPatience(t *testing.T) {
	for _, tc := range []struct {
		name     string
		failures int
		body     io.Reader
		timeout  time.Duration
		want     int
		err      error
	}{
		{name: "an answer is an answer", want: 1},
		{name: "an informer waits until core is back", failures: 1000, want: 1001},
		{name: "until it stops", failures: 1000, timeout: patience + 1, want: 2, err: errAway},
		{name: "who sends something does not wait", failures: 1, body: strings.NewReader("body"), want: 1, err: errAway},
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
				p := &patient{next: roundTripper(func(*http.Request) (*http.Response, error) {
					if attempts++; attempts <= tc.failures {
						return nil, errAway
					}
					return &http.Response{Body: http.NoBody}, nil
				})}
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://core/", tc.body)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := p.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
				}
				if !errors.Is(err, tc.err) || attempts != tc.want {
					t.Errorf("%d attempts, %v; want %d, %v", attempts, err, tc.want, tc.err)
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
