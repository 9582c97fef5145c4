// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// delayProxy stands between a client and its server, and holds back what the server sends for a time that can be
// changed. It passes on at once what the client sends.
type delayProxy struct {
	listener net.Listener
	target   string
	delay    atomic.Int64
}

// newDelayProxy returns a proxy for the server at a URL. It ends with the process.
func newDelayProxy(url string) (*delayProxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &delayProxy{listener: listener, target: strings.TrimPrefix(url, "http://")}
	go p.serve()
	return p, nil
}

func (p *delayProxy) url() string { return "http://" + p.listener.Addr().String() }

// set changes how long an answer is held back.
func (p *delayProxy) set(delay time.Duration) { p.delay.Store(int64(delay)) }

func (p *delayProxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			server, err := net.Dial("tcp", p.target)
			if err != nil {
				closing(client)
				return
			}
			go func() {
				io.Copy(server, client) //nolint:errcheck // either end may go away
				closing(server)
			}()
			p.holdBack(client, server)
			closing(client)
		}()
	}
}

// held is what a server sent, and when the client may receive it.
type held struct {
	data []byte
	due  time.Time
}

// holdBack copies what a server sends, in order, each piece after the delay that was set when it came.
func (p *delayProxy) holdBack(client io.Writer, server io.Reader) {
	pieces, gone := make(chan held, 1<<16), make(chan struct{})
	go func() {
		defer close(gone)
		for piece := range pieces {
			time.Sleep(time.Until(piece.due))
			if _, err := client.Write(piece.data); err != nil {
				return
			}
		}
	}()
	defer func() {
		close(pieces)
		<-gone
	}()
	for {
		buffer := make([]byte, 32<<10)
		n, err := server.Read(buffer)
		if n > 0 {
			select {
			case pieces <- held{buffer[:n], time.Now().Add(time.Duration(p.delay.Load()))}:
			case <-gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func TestDelayProxyHoldsBackWhatTheServerSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, say := io.Pipe()
		heard, client := io.Pipe()
		p := &delayProxy{}
		go func() {
			p.holdBack(client, server)
			closing(client)
		}()
		go func() {
			defer closing(say)
			for _, step := range []struct {
				text  string
				delay time.Duration
			}{{"a", 0}, {"b", 2 * time.Second}, {"c", 0}} {
				p.set(step.delay)
				if _, err := io.WriteString(say, step.text); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond) // so that it is read before the delay changes
			}
		}()
		began := time.Now()
		for _, want := range []struct {
			text  string
			after time.Duration
		}{{"a", 0}, {"b", 2*time.Second + time.Millisecond}, {"c", 2*time.Second + time.Millisecond}} {
			got := make([]byte, 1)
			if _, err := io.ReadFull(heard, got); err != nil || string(got) != want.text || time.Since(began) != want.after {
				t.Errorf("got %q, %v after %s, want %q after %s", got, err, time.Since(began), want.text, want.after)
			}
		}
		if _, err := heard.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	})
}
