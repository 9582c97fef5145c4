// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
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
	probes   atomic.Int64

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

// standsStill runs a test with a backend of one replica, which answers requests but probes once answer is closed.
func standsStill(t *testing.T, test func(t *testing.T, b *Backend, replica *standing, answer chan struct{})) {
	t.Helper()
	config := connectionstest.NewPKI(t).ServerConfig(t, coreServerName)
	config.ClientAuth = tls.NoClientCert
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		var replica *standing
		replica = newStanding(config, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/readyz" {
				replica.probes.Add(1)
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
		test(t, b, replica, answer)
	})
}

// TestNobodyWaitsLongerThanUntilAReplicaIsKnownToBeFrozen has a read and a watch in flight at the only replica.
func TestNobodyWaitsLongerThanUntilAReplicaIsKnownToBeFrozen(t *testing.T) {
	standsStill(t, func(t *testing.T, b *Backend, replica *standing, answer chan struct{}) {
		watching := newRequest(t, http.MethodGet, "")
		watching.URL.Path, watching.URL.RawQuery = "/api/v1/pods", "watch=true"
		watch, err := b.RoundTrip(watching)
		require.NoError(t, err)
		var requests sync.WaitGroup
		var stood time.Time
		begin := func(method string, check func(error)) {
			requests.Go(func() {
				_, err := do(t, b, by(user.Anonymous, newRequest(t, method, "")))
				check(err)
				assert.Less(t, time.Since(stood), 3*time.Second, "%s waited", method)
			})
		}
		begin(http.MethodGet, func(err error) {
			var unreachable *UnreachableError
			assert.ErrorAs(t, err, &unreachable, "a read gets 503")
		})
		synctest.Wait()
		stood = time.Now()
		replica.stop()
		time.Sleep(time.Second)
		// This one waits for a connection of its own.
		begin(http.MethodPost, func(err error) {
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

// TestAWriteThatWasSentWaits has a read and a write in flight at the only replica. Nobody could repeat the write.
func TestAWriteThatWasSentWaits(t *testing.T) {
	for _, name := range []string{"jane", user.Anonymous} { // one over HTTP/2, the other over HTTP/1.1
		for _, recovers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the replica recovers: %v", name, recovers), func(t *testing.T) {
				standsStill(t, func(t *testing.T, b *Backend, replica *standing, answer chan struct{}) {
					begin := func(method string) <-chan error {
						ended := make(chan error, 1)
						go func() {
							_, err := do(t, b, by(name, newRequest(t, method, "")))
							ended <- err
						}()
						return ended
					}
					written, read := begin(http.MethodPost), begin(http.MethodGet)
					synctest.Wait()
					stood := time.Now()
					replica.stop()
					assert.Error(t, <-read, "a read does not wait")
					if recovers {
						replica.resume()
						close(answer)
						assert.NoError(t, <-written, "the write has its answer")
						return
					}
					err := <-written
					assert.Equal(t, connections.Broken, connections.ReasonOf(err), "nobody knows whether it was carried out: %v", err)
					assert.Less(t, time.Since(stood), 5*time.Second)
					replica.resume() // so that the server can end
				})
			})
		}
	}
}

// TestAReplicaWhoseFeedSpeaksIsSeldomProbed has only a watch in flight, until a request waits.
func TestAReplicaWhoseFeedSpeaksIsSeldomProbed(t *testing.T) {
	standsStill(t, func(t *testing.T, b *Backend, replica *standing, answer chan struct{}) {
		watching := newRequest(t, http.MethodGet, "")
		watching.URL.Path, watching.URL.RawQuery = "/api/v1/pods", "watch=true"
		_, err := b.RoundTrip(watching)
		require.NoError(t, err)
		// probed returns how often the replica is probed in a time in which its feed speaks as it should.
		probed := func(d time.Duration) int64 {
			before := replica.probes.Load()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(400 * time.Millisecond) {
				b.Hear("replica:1", true)
			}
			synctest.Wait()
			return replica.probes.Load() - before
		}
		_ = probed(time.Second)
		assert.LessOrEqual(t, probed(30*time.Second), int64(6))

		before := replica.probes.Load()
		b.Hear("replica:1", false)
		time.Sleep(b.checks.pause)
		synctest.Wait()
		assert.Equal(t, before+1, replica.probes.Load(), "it says that it does not serve")

		go func() { _, _ = do(t, b, newRequest(t, http.MethodPost, "")) }()
		synctest.Wait()
		assert.GreaterOrEqual(t, probed(10*time.Second), int64(18), "a request waits")
		close(answer)
		synctest.Wait()
		_ = probed(time.Second)
		assert.LessOrEqual(t, probed(30*time.Second), int64(6))

		before = replica.probes.Load()
		b.ProbeNow("replica:1")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.GreaterOrEqual(t, replica.probes.Load()-before, int64(18), "the feed is lost")
	})
}

// TestAFrozenReplicaWhoseFeedSpokeIsFoundAsSoon has the replica stand still at any time after it was last heard.
func TestAFrozenReplicaWhoseFeedSpokeIsFoundAsSoon(t *testing.T) {
	checks := ownChecks()
	worst := checks.servingInterval + checks.timeout + lastWord
	for after := time.Duration(0); after < 400*time.Millisecond; after += 30 * time.Millisecond {
		standsStill(t, func(t *testing.T, b *Backend, replica *standing, _ chan struct{}) {
			for range 20 {
				b.Hear("replica:1", true)
				time.Sleep(400 * time.Millisecond)
			}
			b.Hear("replica:1", true)
			time.Sleep(after)
			replica.stop()
			stood := time.Now()
			e := b.endpointAt("replica:1")
			rank := func() rank {
				b.mu.Lock()
				defer b.mu.Unlock()
				return e.health.rank()
			}
			for rank() != rankFrozen && time.Since(stood) < time.Minute {
				time.Sleep(10 * time.Millisecond)
			}
			assert.LessOrEqual(t, time.Since(stood), worst+10*time.Millisecond, "after %s", after)
			replica.resume()
		})
	}
}
