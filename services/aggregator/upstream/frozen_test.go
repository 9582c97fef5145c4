// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/test/bufconn"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/internal/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// standing is a replica inside the test that can stand still. Its host accepts connections and data, and sends nothing back.
type standing struct {
	listener *bufconn.Listener
	server   *http.Server

	mu sync.Mutex
	// goes is closed while the replica does not stand still.
	goes chan struct{}
}

func newStanding(config *tls.Config, handler http.Handler) *standing {
	s := &standing{listener: bufconn.Listen(1 << 20), goes: make(chan struct{})}
	close(s.goes)
	s.server = &http.Server{Handler: handler, TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0)}
	return s
}

func (s *standing) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goes = make(chan struct{})
}

func (s *standing) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.goes)
}

func (s *standing) await() {
	s.mu.Lock()
	goes := s.goes
	s.mu.Unlock()
	<-goes
}

// Accept implements net.Listener.
func (s *standing) Accept() (net.Conn, error) {
	conn, err := s.listener.Accept()
	return standingConn{conn, s}, err
}

func (s *standing) Close() error   { return s.listener.Close() }
func (s *standing) Addr() net.Addr { return s.listener.Addr() }

type standingConn struct {
	net.Conn
	replica *standing
}

func (c standingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.replica.await()
	return n, err
}

func (c standingConn) Write(p []byte) (int, error) {
	c.replica.await()
	return c.Conn.Write(p)
}

// TestNobodyWaitsLongerThanUntilAReplicaIsKnownToBeFrozen has a read, a write and a watch in flight at the only replica.
func TestNobodyWaitsLongerThanUntilAReplicaIsKnownToBeFrozen(t *testing.T) {
	config := connectionstest.NewPKI(t).ServerConfig(t, coreServerName)
	config.ClientAuth = tls.NoClientCert
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		replica := newStanding(config, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/readyz" {
				return
			}
			if req.URL.Query().Has("watch") {
				_ = http.NewResponseController(w).Flush()
			}
			select {
			case <-answer:
				_, _ = io.WriteString(w, "event")
			case <-req.Context().Done():
			}
		}))
		go func() { _ = replica.server.ServeTLS(replica, "", "") }()
		defer replica.server.Close()                                                       //nolint:errcheck // the test is over
		b := empty(Core, connections.NewFixedTrust(&tls.Config{InsecureSkipVerify: true})) //nolint:gosec // the clock of the test is no certificate's
		b.dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return replica.listener.DialContext(ctx) }
		b.SetAddresses([]string{"replica:1"})
		e := b.endpointAt("replica:1")
		defer e.pool.Break()
		ctx, stop := context.WithCancel(t.Context())
		var probing sync.WaitGroup
		defer probing.Wait()
		defer stop()
		probing.Go(func() { b.keepProbing(ctx, e) })
		synctest.Wait()

		watching := newRequest(t, http.MethodGet, "")
		watching.URL.Path, watching.URL.RawQuery = "/api/v1/pods", "watch=true"
		watch, err := b.RoundTrip(watching)
		require.NoError(t, err)
		var requests sync.WaitGroup
		var stood time.Time
		begin := func(name, method string, check func(error)) {
			requests.Go(func() {
				_, err := do(t, b, by(name, newRequest(t, method, "")))
				check(err)
				assert.Less(t, time.Since(stood), 3*time.Second, "%s waited", method)
			})
		}
		begin(user.Anonymous, http.MethodGet, func(err error) {
			var unreachable *UnreachableError
			assert.ErrorAs(t, err, &unreachable, "a read gets 503")
		})
		begin("jane", http.MethodPost, func(err error) {
			assert.Equal(t, connections.Broken, connections.ReasonOf(err), "nobody knows whether a write was carried out: %v", err)
		})
		synctest.Wait()
		stood = time.Now()
		replica.stop()
		time.Sleep(time.Second)
		// Like the read, it waits for a connection of its own.
		begin(user.Anonymous, http.MethodPost, func(err error) {
			var unreachable *UnreachableError
			assert.ErrorAs(t, err, &unreachable, "a request that never left gets 503")
		})
		requests.Wait()
		_, err = do(t, b, newRequest(t, http.MethodPost, ""))
		var unreachable *UnreachableError
		require.ErrorAs(t, err, &unreachable, "the next request gets 503 at once")

		replica.resume()
		close(answer)
		event, err := io.ReadAll(watch.Body)
		require.NoError(t, err, "the watch goes on")
		assert.Equal(t, "event", string(event))
		time.Sleep(time.Second)
		synctest.Wait()
		_, err = do(t, b, newRequest(t, http.MethodPost, ""))
		assert.NoError(t, err, "the replica is back")
	})
}
