// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkSession measures the memory that a session keeps after a page: half of all sessions that a replica has, each of another user
// with a token of 1 KiB.
func BenchmarkSession(b *testing.B) {
	const sessions = maxSessions / 2
	c := newTeam(b)
	token := func(i int) string { return fmt.Sprintf("%01024d", i) }
	for i := range sessions {
		c.api.users[token(i)] = fmt.Sprint("user-", i)
	}
	send := func(req *http.Request) *http.Response {
		req.Host = c.url().Host
		answer := httptest.NewRecorder()
		c.guard.ServeHTTP(answer, req)
		return answer.Result()
	}
	inUse := func() int64 {
		var memory runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools have kept
		runtime.ReadMemStats(&memory)
		return int64(memory.HeapAlloc + memory.StackInuse)
	}
	var kept int64
	rounds := 0
	for b.Loop() {
		before := inUse()
		for i := range sessions {
			form := url.Values{"token": {token(i)}}
			req := httptest.NewRequest(http.MethodPost, signIn, strings.NewReader(form.Encode()))
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Origin", c.server.URL)
			entered := send(req)
			require.Equal(b, http.StatusSeeOther, entered.StatusCode)
			req = httptest.NewRequest(http.MethodGet, "/?q=settings", nil)
			req.AddCookie(entered.Cookies()[0])
			require.Equal(b, http.StatusOK, send(req).StatusCode)
		}
		c.api.tokens()
		kept += inUse() - before
		rounds++
		for k := range c.guard.sessions.all {
			c.guard.sessions.end(k)
		}
	}
	b.ReportMetric(float64(kept)/float64(rounds*sessions), "B/session")
	b.ReportMetric(0, "ns/op")
}
