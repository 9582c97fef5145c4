// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// deaf is a database server that takes connections and answers nothing.
type deaf struct {
	net.Listener
	// taken counts connections, and open those that clients have not closed.
	taken, open atomic.Int64
}

func newDeaf(t *testing.T) *deaf {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	d := &deaf{Listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			d.open.Add(1)
			d.taken.Add(1)
			go func() {
				defer d.open.Add(-1)
				defer conn.Close()
				io.Copy(io.Discard, conn) //nolint:errcheck // its end counts
			}()
		}
	}()
	return d
}

// TestNothingUsesTheDatabaseOnceTheServerIsClosed has a question about rights whose reader is gone, and a watch that has not ended. The
// database does not answer, and the server closes nevertheless.
func TestNothingUsesTheDatabaseOnceTheServerIsClosed(t *testing.T) {
	d := newDeaf(t)
	opened, err := store.Open(fmt.Sprintf("postgres://search@%s/search?sslmode=disable", d.Addr()))
	require.NoError(t, err)
	s := &server{store: opened, rights: rights.New(opened)}
	s.handler = NewHandler(s.store, s.rights, nil)

	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan error)
	go func() {
		_, err := s.rights.AccessSet(ctx, &user.DefaultInfo{Name: "alice"}, "list")
		answered <- err
	}()
	require.Eventually(t, func() bool { return d.taken.Load() == 1 }, time.Minute, time.Millisecond)
	leave()
	require.ErrorIs(t, <-answered, rights.ErrUnread)
	watch := s.handler.watchCache.Subscribe([]int64{1})
	defer watch.Close()
	require.Eventually(t, func() bool { return d.taken.Load() == 2 }, time.Minute, time.Millisecond)
	require.EqualValues(t, 2, d.open.Load(), "both still wait for the database")

	require.NoError(t, s.close())
	require.Eventually(t, func() bool { return d.open.Load() == 0 }, database.StatementTimeout/3, time.Millisecond)
	_, err = s.rights.AccessSet(t.Context(), &user.DefaultInfo{Name: "alice"}, "list")
	assert.ErrorIs(t, err, rights.ErrUnread)
	assert.EqualValues(t, 2, d.taken.Load())
}
