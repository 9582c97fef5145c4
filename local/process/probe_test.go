// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHTTPProbe(t *testing.T) {
	const waiting = `[+]ping ok
[-]etcd failed: reason withheld
[-]core-apiservices failed: 3 of 40 are missing
readyz check failed
`
	for _, tc := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{name: "ready", status: http.StatusOK, body: "ok"},
		{name: "waiting", status: http.StatusInternalServerError, body: waiting, want: "waits for etcd, core-apiservices (3 of 40 are missing)"},
		{name: "without checks", status: http.StatusServiceUnavailable, body: "later", want: "/readyz answers 503 Service Unavailable"},
		{name: "forbidden", status: http.StatusForbidden, want: "/readyz answers 403 Forbidden"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				assert.Equal(t, "/readyz?verbose", req.URL.String())
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.body)
			}))
			defer server.Close()
			got := ""
			if err := NewHTTPProbe(server.URL, nil).Ready(t.Context()); err != nil {
				got = err.Error()
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestHTTPProbeOfNobody(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	err := NewHTTPProbe(server.URL, nil).Ready(t.Context())
	if err == nil || err.Error() != "does not listen yet" {
		t.Errorf("error is %v", err)
	}
}
