// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// stops is an API server that sends the beginning of an answer, and then nothing.
type stops struct {
	begin []byte
	gzip  bool
	// asked counts requests, and stopped those of which search has read all.
	asked, stopped atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (s *stops) RoundTrip(req *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	header := http.Header{"Content-Type": {"application/json"}}
	if s.gzip {
		header.Set("Content-Encoding", "gzip")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: &stoppedBody{server: s, ctx: req.Context(), rest: s.begin}}, nil
}

type stoppedBody struct {
	server *stops
	ctx    context.Context // that of the request
	rest   []byte
}

func (b *stoppedBody) Read(into []byte) (int, error) {
	if len(b.rest) == 0 {
		b.server.stopped.Add(1)
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	n := copy(into, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *stoppedBody) Close() error { return nil }

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools keep
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) + int64(m.StackInuse)
}

// TestStreamsOfAMemberTakeLittleMemory has a member stop in an object of each of its resources.
func TestStreamsOfAMemberTakeLittleMemory(t *testing.T) {
	const streams, most = 1000, 32 << 20
	object := `{"metadata":{"name":"` + strings.Repeat("x", smallObject-1000)
	compressed := func(text string) []byte {
		var to bytes.Buffer
		w := gzip.NewWriter(&to)
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		return to.Bytes()
	}
	for name, test := range map[string]struct {
		server *stops
		path   string
		// reads are the streams that read at the same time.
		reads, stopped int64
	}{
		"watches": {&stops{begin: []byte(`{"type":"ADDED","object":` + object)}, "watch", streams, slotsAtOnce},
		"lists":   {&stops{begin: compressed(`{"items":[` + object), gzip: true}, "list", listsAtOnce, slotsAtOnce},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, &rest.Config{Host: "http://member", Transport: test.server}, nil)
			ctx, cancel := context.WithCancel(t.Context())
			before := heap()
			var all sync.WaitGroup
			for i := range streams {
				s := m.source()
				s.resource = schema.GroupVersionResource{Group: fmt.Sprint("example", i%4), Version: "v1", Resource: fmt.Sprint("things", i)}
				all.Go(func() { readAll(ctx, s, test.path) }) //nolint:errcheck // the test ends it
			}
			require.Eventually(t, func() bool {
				return test.server.asked.Load() >= test.reads && test.server.stopped.Load() >= test.stopped
			},
				time.Minute, 10*time.Millisecond)
			took := heap() - before
			t.Logf("%d %s that stop in an object of %d KiB take %d KiB", streams, name, len(object)>>10, took>>10)
			assert.Less(t, took, int64(most))
			cancel()
			all.Wait()
			assert.Zero(t, m.limiter.slots.count())
			assert.Zero(t, m.limiter.Limiter.slots.count())
			assert.Zero(t, m.limiter.lists.count())
		})
	}
}

// TestAWatchThatIsCompressedIsListed has a member compress watches, for which search does not ask: it lists, which takes memory for a short
// time only.
func TestAWatchThatIsCompressedIsListed(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.odd = func(w http.ResponseWriter, query url.Values) bool {
		if query.Get("watch") != "" {
			w.Header().Set("Content-Encoding", "gzip")
			gzip.NewWriter(w).Close()
		}
		return query.Get("watch") != ""
	}
	f.put("a", "b")
	m, _ := run(t, f, s)
	eventually(t, s, "a", "b")
	require.Eventually(t, func() bool { return onlyStream(m).Status().Reason == notWatched }, time.Minute, 10*time.Millisecond)
}

func TestTheLastListGivesMemoryBackBeforeItEnds(t *testing.T) {
	s := newStore(t)
	collections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	first, last := beginList(s), beginList(s)
	before := collections()
	first()
	assert.Equal(t, before, collections(), "another list goes on")
	last()
	assert.Greater(t, collections(), before)
	last()
}
