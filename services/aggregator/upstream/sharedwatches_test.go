// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/watches"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// broadcaster is a replica whose watches all get the same events.
type broadcaster struct {
	sessions watches.Sessions
	// shares is false for a replica of an older release.
	shares bool

	mu      sync.Mutex
	streams map[chan string]struct{}
}

func newBroadcaster(shares bool) *broadcaster {
	return &broadcaster{shares: shares, streams: map[chan string]struct{}{}}
}

// ServeHTTP does what trust.BackendOptions has a backend do.
func (b *broadcaster) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	value := req.Header.Get(envelope.WatchesHeader)
	switch {
	case !b.shares || value == "":
	case watches.IsOpen(value):
		b.sessions.Open(w, req)
		return
	default:
		joined, finish := b.sessions.Join(w, req, value)
		defer finish()
		w = joined
	}
	if req.Method == http.MethodPost {
		http.Error(w, "a path that this release does not have", http.StatusNotFound)
		return
	}
	b.watch(w, req)
}

func (b *broadcaster) watch(w http.ResponseWriter, req *http.Request) {
	if req.URL.Query().Get("resourceVersion") == "1" {
		http.Error(w, "too old", http.StatusGone)
		return
	}
	events := make(chan string, 100)
	b.mu.Lock()
	b.streams[events] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.streams, events)
	}()
	w.Header().Set("Content-Type", "application/json")
	write := io.WriteString
	if req.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		write = compress
	}
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case event := <-events:
			if event == "" {
				return
			}
			if _, err := write(w, event+"\n"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		case <-req.Context().Done():
			return
		}
	}
}

// compress writes an event as kube-apiserver does to a client that accepts gzip: each one is compressed on its own.
func compress(w io.Writer, event string) (int, error) {
	compressor := gzip.NewWriter(w)
	if _, err := io.WriteString(compressor, event); err != nil {
		return 0, err
	}
	return len(event), compressor.Close()
}

// send sends an event to all watches. An empty one ends them.
func (b *broadcaster) send(event string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for events := range b.streams {
		events <- event
	}
}

func (b *broadcaster) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.streams)
}

// watch opens a watch.
func watch(t *testing.T, b *Backend, query string) (*http.Response, context.CancelFunc) {
	t.Helper()
	return watchEncoded(t, b, query, "")
}

// watchEncoded opens a watch of a client that accepts an encoding.
func watchEncoded(t *testing.T, b *Backend, query, encoding string) (*http.Response, context.CancelFunc) {
	t.Helper()
	req := newRequest(t, http.MethodGet, "")
	req.Header.Set("Accept-Encoding", encoding)
	req.URL.Path, req.URL.RawQuery, req.RemoteAddr = "/api/v1/namespaces/a/configmaps", "watch=1&"+query, "192.0.2.1:1"
	ctx, cancel := context.WithCancel(req.Context())
	resp, err := b.RoundTrip(classified(t, req.WithContext(ctx), routing.Target{Owner: routing.Core}))
	require.NoError(t, err)
	t.Cleanup(func() { cancel(); _ = resp.Body.Close() })
	assert.NotContains(t, resp.Header, envelope.WatchesHeader, "clients see the header")
	return resp, cancel
}

// isShared reports whether the answer to a watch arrives in a session.
func isShared(t *testing.T, resp *http.Response) bool {
	t.Helper()
	body, ok := resp.Body.(*answer)
	require.True(t, ok)
	_, shared := body.ReadCloser.(*watches.Body)
	return shared
}

func line(t *testing.T, resp *http.Response) string {
	t.Helper()
	got, err := bufio.NewReader(io.LimitReader(resp.Body, int64(len("event 1\n")))).ReadString('\n')
	require.NoError(t, err)
	return got
}

// serveBroadcaster starts a replica, and returns a backend with it, and its endpoint.
func serveBroadcaster(t *testing.T, replica *broadcaster) (*Backend, *endpoint) {
	t.Helper()
	pki := connectionstest.NewPKI(t)
	address := serve(t, pki, replica.ServeHTTP)
	b := newBackend(t, pki, address)
	b.find(address, ready)
	return b, b.endpoints[address]
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 10*time.Second, time.Millisecond, what)
}

func TestWatchesShare(t *testing.T) {
	replica := newBroadcaster(true)
	b, _ := serveBroadcaster(t, replica)
	first, _ := watch(t, b, "")
	assert.False(t, isShared(t, first), "the first watch asks whether the replica can share")
	var all []*http.Response
	for range 20 {
		resp, _ := watch(t, b, "")
		assert.True(t, isShared(t, resp))
		all = append(all, resp)
	}
	gone, _ := watch(t, b, "resourceVersion=1")
	assert.Equal(t, http.StatusGone, gone.StatusCode)
	body, err := io.ReadAll(gone.Body)
	require.NoError(t, err)
	assert.Equal(t, "too old\n", string(body), "an answer that is no watch")
	again, _ := watch(t, b, "")
	assert.True(t, isShared(t, again))
	all = append(all, first, again)

	eventually(t, "all watch", func() bool { return replica.count() == len(all) })
	replica.send("event 1")
	for _, resp := range all {
		assert.Equal(t, "event 1\n", line(t, resp))
	}
	replica.send("event 2")
	replica.send("")
	for _, resp := range all {
		rest, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "event 2\n", string(rest), "the end comes after the events")
	}
}

// Informers watch so, since Kubernetes 1.37.
func TestCompressedWatchesShare(t *testing.T) {
	replica := newBroadcaster(true)
	b, _ := serveBroadcaster(t, replica)
	watch(t, b, "")
	plain, _ := watch(t, b, "")
	all := []*http.Response{}
	for range 2 {
		resp, _ := watchEncoded(t, b, "", "gzip")
		assert.True(t, isShared(t, resp))
		assert.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
		all = append(all, resp)
	}
	eventually(t, "all watch", func() bool { return replica.count() == 4 })
	replica.send("event 1")
	replica.send("event 2")
	replica.send("")
	for _, resp := range all {
		text, err := gzip.NewReader(resp.Body)
		require.NoError(t, err)
		got, err := io.ReadAll(text)
		require.NoError(t, err)
		assert.Equal(t, "event 1\nevent 2\n", string(got))
	}
	got, err := io.ReadAll(plain.Body)
	require.NoError(t, err)
	assert.Equal(t, "event 1\nevent 2\n", string(got))
}

func TestACancelledWatchLeavesItsSession(t *testing.T) {
	replica := newBroadcaster(true)
	b, e := serveBroadcaster(t, replica)
	watch(t, b, "")
	left, cancel := watch(t, b, "")
	stays, _ := watch(t, b, "")
	require.True(t, isShared(t, left) && isShared(t, stays))
	cancel()
	_, err := left.Body.Read(make([]byte, 1))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, left.Body.Close())
	eventually(t, "the replica notices", func() bool { return replica.count() == 2 })
	replica.send("event 1")
	assert.Equal(t, "event 1\n", line(t, stays))

	session := e.sharedWatches.current
	e.sharedWatches.retire()
	replica.send("event 2")
	assert.Equal(t, "event 2\n", line(t, stays), "the session of a removed replica goes on while it has watches")
	require.NoError(t, stays.Body.Close())
	select {
	case <-session.Ended():
	case <-time.After(10 * time.Second):
		t.Error("the session does not end with the last watch of a removed replica")
	}
}

func TestALostSessionEndsItsWatches(t *testing.T) {
	replica := newBroadcaster(true)
	b, e := serveBroadcaster(t, replica)
	watch(t, b, "")
	resp, _ := watch(t, b, "")
	require.True(t, isShared(t, resp))
	eventually(t, "both watch", func() bool { return replica.count() == 2 })
	replica.send("event 1")
	assert.Equal(t, "event 1\n", line(t, resp))
	e.pool.Break()
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Empty(t, rest)
	eventually(t, "watches share again", func() bool {
		resp, _ := watch(t, b, "")
		return isShared(t, resp)
	})
}

func TestAReplicaThatForgotTheSessionGetsAnotherOne(t *testing.T) {
	replica := newBroadcaster(true)
	b, e := serveBroadcaster(t, replica)
	watch(t, b, "")
	resp, _ := watch(t, b, "")
	require.True(t, isShared(t, resp))
	e.sharedWatches.current.name = "unknown"
	next, _ := watch(t, b, "")
	assert.False(t, isShared(t, next))
	next, _ = watch(t, b, "")
	assert.True(t, isShared(t, next))
	eventually(t, "all watch", func() bool { return replica.count() == 4 })
	replica.send("event 1")
	assert.Equal(t, "event 1\n", line(t, resp), "watches of the earlier session go on")
	assert.Equal(t, "event 1\n", line(t, next))
}

func TestOlderReplicasShareNothing(t *testing.T) {
	replica := newBroadcaster(false)
	b, e := serveBroadcaster(t, replica)
	for range 3 {
		resp, _ := watch(t, b, "")
		assert.False(t, isShared(t, resp))
	}
	e.sharedWatches.offer(nil) // as a newer release did at this address
	resp, _ := watch(t, b, "")
	assert.False(t, isShared(t, resp))
	eventually(t, "all watch", func() bool { return replica.count() == 4 })
	replica.send("event 1")
	assert.Equal(t, "event 1\n", line(t, resp))
}

// TestAWatchThatIsCancelledWhileItIsOpened leaves nothing behind.
func TestAWatchThatIsCancelledWhileItIsOpened(t *testing.T) {
	replica := newBroadcaster(true)
	b, e := serveBroadcaster(t, replica)
	watch(t, b, "")
	stays, _ := watch(t, b, "")
	for range 50 {
		req := newRequest(t, http.MethodGet, "")
		req.URL.Path, req.URL.RawQuery = "/api/v1/namespaces/a/configmaps", "watch=1"
		ctx, cancel := context.WithCancel(req.Context())
		go cancel()
		resp, err := b.RoundTrip(classified(t, req.WithContext(ctx), routing.Target{Owner: routing.Core}))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			assert.True(t, errors.Is(err, context.Canceled), "%v", err)
			assert.NoError(t, resp.Body.Close())
		}
	}
	eventually(t, "only two watches are left", func() bool { return replica.count() == 2 })
	require.NoError(t, stays.Body.Close())
	assert.True(t, e.sharedWatches.current.CloseIfIdle(), "no watch is left in the session")
}
