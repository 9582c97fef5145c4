// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// counting is a listener that counts what its connections write.
type counting struct {
	net.Listener
	writes atomic.Int64
}

func (l *counting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countingConn{conn, l}, err
}

type countingConn struct {
	net.Conn
	listener *counting
}

func (c countingConn) Write(p []byte) (int, error) {
	c.listener.writes.Add(1)
	return c.Conn.Write(p)
}

func serve(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *counting) {
	t.Helper()
	server := httptest.NewUnstartedServer(Answers(handler))
	listener := &counting{Listener: server.Listener}
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return server, listener
}

func get(t *testing.T, server *httptest.Server) *http.Response {
	t.Helper()
	resp, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestAListLeavesInLargePieces(t *testing.T) {
	item := strings.Repeat("x", 1<<10)
	server, listener := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 512 {
			_, _ = io.WriteString(w, item)
		}
	})
	got, err := io.ReadAll(get(t, server).Body)
	if err != nil || string(got) != strings.Repeat(item, 512) {
		t.Fatalf("got %d bytes, error %v", len(got), err)
	}
	if writes, most := listener.writes.Load(), int64(3*512<<10/size); writes > most {
		t.Errorf("there were %d writes, want %d at most", writes, most)
	}
}

func TestWhatIsFlushedIsSentAtOnce(t *testing.T) {
	read := make(chan bool)
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "event\n")
			w.(http.Flusher).Flush()
			<-read
		}
	})
	lines := bufio.NewScanner(get(t, server).Body)
	for range 3 {
		if !lines.Scan() || lines.Text() != "event" {
			t.Fatalf("got %q, error %v", lines.Text(), lines.Err())
		}
		read <- true
	}
}

func TestHeadersCountUntilSomethingIsWritten(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Before", "is sent")
		_, _ = io.WriteString(w, "x")
		w.Header().Set("After", "is not")
	})
	if header := get(t, server).Header; header.Get("Before") == "" || header.Get("After") != "" {
		t.Errorf("the headers are %v", header)
	}
}

func TestAnAnswerThatBreaksOffIsNotComplete(t *testing.T) {
	for name, header := range map[string]string{"of unknown length": "", "of a length": "5000"} {
		t.Run(name, func(t *testing.T) {
			server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if header != "" {
					w.Header().Set("Content-Length", header)
				}
				_, _ = io.WriteString(w, strings.Repeat("x", 4000))
				panic(http.ErrAbortHandler)
			})
			resp, err := server.Client().Get(server.URL)
			if err != nil {
				return // nothing of it was sent
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("got %d bytes as if they were all", len(got))
			}
		})
	}
}

func TestWhatIsLongerThanItSaysIsCutOffAsByNetHTTP(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4")
		_, _ = io.WriteString(w, "four")
		_, _ = io.WriteString(w, "\n")
	})
	if got, err := io.ReadAll(get(t, server).Body); err != nil || string(got) != "four" {
		t.Errorf("got %q, error %v", got, err)
	}
}

func TestWhoWaitsHasNoBuffer(t *testing.T) {
	waiting := make(chan *answer)
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "event\n")
		_ = http.NewResponseController(w).Flush()
		waiting <- w.(*answer)
	})
	go func() { _, _ = io.Copy(io.Discard, get(t, server).Body) }()
	if a := <-waiting; a.buffer != nil {
		t.Error("it has one")
	}
}

func TestAConnectionCanBeTakenOver(t *testing.T) {
	before := strings.Repeat("x", 4000) // more than net/http keeps to itself
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, before)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "5\r\nafter\r\n0\r\n\r\n")
	})
	if got, err := io.ReadAll(get(t, server).Body); err != nil || string(got) != before+"after" {
		t.Errorf("got %d bytes that end with %.20q, error %v", len(got), string(got[max(0, len(got)-20):]), err)
	}
}
