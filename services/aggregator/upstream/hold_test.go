// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
)

func TestReadUpTo(t *testing.T) {
	const limit = 10000
	broken := errors.New("broken")
	for _, length := range []int{0, 1, 4095, 4096, 4097, 8191, limit - 1, limit, limit + 1, 3 * limit} {
		for _, known := range []int{-1, length} {
			if known > limit {
				continue // not read
			}
			content := strings.Repeat("x", length)
			for name, reader := range map[string]io.Reader{
				"at once":      strings.NewReader(content),
				"byte by byte": iotest.OneByteReader(strings.NewReader(content)),
				"with its end": iotest.DataErrReader(strings.NewReader(content)),
			} {
				begin, complete, err := readUpTo(reader, known, limit)
				rest, _ := io.ReadAll(reader)
				if err != nil || string(begin)+string(rest) != content {
					t.Errorf("%d bytes %s: %d and %d bytes, error %v", length, name, len(begin), len(rest), err)
				}
				if len(begin) > limit || (complete && len(rest) > 0) || (!complete && length < limit) {
					t.Errorf("%d bytes %s: %d bytes, complete is %v", length, name, len(begin), complete)
				}
			}
			if length == 0 {
				continue
			}
			reader := io.MultiReader(strings.NewReader(content[1:]), iotest.ErrReader(broken))
			if _, _, err := readUpTo(reader, known, limit); length <= limit && !errors.Is(err, broken) {
				t.Errorf("%d bytes that break off: %v", length, err)
			}
		}
	}
}

func TestAnswersOfAnyLengthArrive(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	address := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		n, _ := strconv.Atoi(req.URL.Query().Get("n"))
		if req.URL.Query().Has("known") {
			w.Header().Set("Content-Length", strconv.Itoa(n))
		}
		_, _ = io.WriteString(w, strings.Repeat("x", n))
	})
	b := newBackend(t, pki, address)
	for _, n := range []int{0, 1, 5000, maxHeld - 1, maxHeld, maxHeld + 1, 3 * maxHeld} {
		for _, query := range []string{"", "&known"} {
			for range 3 { // with both protocols
				req := newRequest(t, http.MethodGet, "")
				req.URL.RawQuery = "n=" + strconv.Itoa(n) + query
				if got, err := do(t, b, req); err != nil || len(got) != n {
					t.Errorf("%d bytes%s: got %d, error %v", n, query, len(got), err)
				}
			}
		}
	}
	if n := b.holding.Load(); n != 0 {
		t.Errorf("%d answers are still held", n)
	}
}

func TestAnAnswerToAWriteThatBreaksOffIsNotBegun(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	answered := 0
	address := serve(t, pki, func(w http.ResponseWriter, _ *http.Request) {
		answered++
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "half of it")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, holds := range []bool{true, false} { // false as for aggregated API servers
		b := newBackend(t, pki, address)
		b.holds = holds
		resp, err := b.RoundTrip(newRequest(t, http.MethodPost, "{}"))
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("held back %t: it is passed on with status %s", holds, resp.Status)
		}
		if n := b.holding.Load(); n != 0 {
			t.Errorf("%d answers are still held", n)
		}
	}
	assert.Equal(t, 2, answered, "2 writes were sent %d times", answered)
}

func TestAnswersDoNotShareABuffer(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	b := newBackend(t, pki, serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		query := req.URL.Query()
		n, _ := strconv.Atoi(query.Get("n"))
		_, _ = io.WriteString(w, strings.Repeat(query.Get("with"), n))
	}))
	var clients sync.WaitGroup
	for client := range 8 {
		letter := string(rune('a' + client))
		clients.Go(func() {
			for round := range 50 {
				n := 1000 + (client*7919+round*104729)%(2*maxHeld)
				req := newRequest(t, http.MethodGet, "")
				req.URL.RawQuery = "with=" + letter + "&n=" + strconv.Itoa(n)
				resp, err := b.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				// Every other answer is not read to its end.
				rest := io.LimitReader(resp.Body, maxHeld/4)
				want := min(n, maxHeld/4)
				if round%2 == 0 {
					rest, want = resp.Body, n
				}
				read, err := io.ReadAll(rest)
				if err != nil || len(read) != want || strings.Trim(string(read), letter) != "" {
					t.Errorf("got %d bytes of %d, some of another answer, or error %v", len(read), want, err)
				}
				_ = resp.Body.Close()
				runtime.Gosched()
			}
		})
	}
	clients.Wait()
}

func TestAnAnswerThatIsNotReadIsReleased(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	b := newBackend(t, pki, serveEcho(t, pki))
	resp, err := b.RoundTrip(newRequest(t, http.MethodGet, ""))
	require.NoError(t, err)
	if n := b.holding.Load(); n != 1 {
		t.Errorf("%d answers are held", n)
	}
	_ = resp.Body.Close()
	if n := b.holding.Load(); n != 0 {
		t.Errorf("%d answers are still held", n)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
		t.Error("it can be read after Close")
	}
}

func TestWatchesAreNotHeld(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	b := newBackend(t, pki, serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "event")
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}))
	req := newRequest(t, http.MethodGet, "")
	req.URL.Path, req.URL.RawQuery = "/api/v1/pods", "watch=1"
	resp, err := b.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, len("event"))); err != nil {
		t.Error(err)
	}
}
