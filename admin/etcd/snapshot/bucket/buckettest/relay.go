// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package buckettest

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Relay passes bytes on, and cuts connections when a test calls Cut.
type Relay struct {
	Address string
	// Sent counts the bytes to the server, Received those from it.
	Sent, Received atomic.Int64

	mutex sync.Mutex
	cuts  int
	// after is how many bytes pass before a cut, in either direction.
	after int64
	// reached is called when bytes pass, with how many there were.
	reached func(sent int64)
}

// Cut cuts the next connections, each after so many bytes in one direction.
func (r *Relay) Cut(connections int, after int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.cuts, r.after = connections, after
}

// Left returns how many connections are still to be cut.
func (r *Relay) Left() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.cuts
}

// OnSent calls a function when bytes have passed to the server, with the number of all.
func (r *Relay) OnSent(do func(sent int64)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.reached = do
}

func startRelay(t testing.TB, to string) *Relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &Relay{Address: listener.Addr().String()}
	var all sync.WaitGroup
	open := map[net.Conn]bool{}
	var mutex sync.Mutex
	track := func(c net.Conn, is bool) {
		mutex.Lock()
		defer mutex.Unlock()
		if is {
			open[c] = true
		} else {
			delete(open, c)
		}
	}
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				track(client, true)
				defer track(client, false)
				r.pass(client, to)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close() //nolint:errcheck // it was open
		mutex.Lock()
		for c := range open {
			c.Close() //nolint:errcheck // it may have ended
		}
		mutex.Unlock()
		all.Wait()
	})
	return r
}

// pass passes the bytes of a connection on until either side ends it, or it is cut.
func (r *Relay) pass(client net.Conn, to string) {
	server, err := net.Dial("tcp", to)
	if err != nil {
		client.Close() //nolint:errcheck // nothing was sent
		return
	}
	end := sync.OnceFunc(func() {
		client.Close() //nolint:errcheck // it has ended
		server.Close() //nolint:errcheck // it has ended
	})
	var both sync.WaitGroup
	both.Go(func() { defer end(); r.copy(server, client, &r.Sent, true) })
	both.Go(func() { defer end(); r.copy(client, server, &r.Received, false) })
	both.Wait()
}

func (r *Relay) copy(to io.Writer, from io.Reader, count *atomic.Int64, sending bool) {
	buffer := make([]byte, 32<<10)
	var passed int64
	for {
		n, err := from.Read(buffer)
		passed += int64(n)
		if r.cut(passed) {
			return
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
		all := count.Add(int64(n))
		r.mutex.Lock()
		reached := r.reached
		r.mutex.Unlock()
		if sending && reached != nil {
			reached(all)
		}
	}
}

// cut reports whether a connection is to be cut after so many bytes.
func (r *Relay) cut(passed int64) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.cuts == 0 || passed < r.after {
		return false
	}
	r.cuts--
	return true
}
