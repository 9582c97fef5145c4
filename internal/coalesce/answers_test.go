// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
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
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		return // nothing of it was sent
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("got %q as if it were all", got)
	}
}

func TestAConnectionCanBeTakenOver(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close() //nolint:errcheck // what was written arrived, or the test fails
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
	})
	if got, err := io.ReadAll(get(t, server).Body); err != nil || string(got) != "hi" {
		t.Errorf("got %q, error %v", got, err)
	}
}
