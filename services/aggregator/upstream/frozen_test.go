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

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
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

// fleet is a backend of one replica that can stand still, and of another one if it was added.
type fleet struct {
	*Backend
	*standing
	// answer has the replica answer requests, once it is closed. It answers probes anyway.
	answer chan struct{}
	// add adds a replica that serves.
	add func()
}

// standsStill runs a test with a fleet.
func standsStill(t *testing.T, test func(t *testing.T, f *fleet)) {
	t.Helper()
	config := connectionstest.NewPKI(t).ServerConfig(t, coreServerName)
	config.ClientAuth = tls.NoClientCert
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{answer: make(chan struct{})}
		f.standing = newStanding(config, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/readyz" {
				f.probes.Add(1)
				return
			}
			if req.URL.Query().Has("watch") {
				_ = http.NewResponseController(w).Flush()
			}
			select {
			case <-f.answer:
				_, _ = io.WriteString(w, "event")
			case <-req.Context().Done():
			}
		}))
		go func() { _ = f.server.ServeTLS(f.standing, "", "") }()
		defer f.server.Close()
		other := newStanding(config, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		go func() { _ = other.server.ServeTLS(other, "", "") }()
		defer other.server.Close()
		b := empty(Core, connections.NewFixedTrust(&tls.Config{InsecureSkipVerify: true}))
		f.Backend = b
		b.dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			if address == "other:1" {
				return other.listener.DialContext(ctx)
			}
			return f.listener.DialContext(ctx)
		}
		ctx, stop := context.WithCancel(t.Context())
		var probing sync.WaitGroup
		defer probing.Wait()
		defer stop()
		begin := func(address string) {
			e := b.endpointAt(address)
			probing.Go(func() { b.keepProbing(ctx, e) })
			context.AfterFunc(ctx, e.pool.Break)
			synctest.Wait()
		}
		f.add = func() {
			b.SetAddresses([]string{"other:1", "replica:1"})
			begin("other:1")
		}
		b.SetAddresses([]string{"replica:1"})
		begin("replica:1")
		test(t, f)
	})
}

// send sends a request, and returns the channel with its error.
func (f *fleet) send(t *testing.T, name, method string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := do(t, f.Backend, by(name, newRequest(t, method, "")))
		ended <- err
	}()
	synctest.Wait()
	return ended
}

func (f *fleet) watch(t *testing.T) *http.Response {
	t.Helper()
	watch, err := f.RoundTrip(newWatch(t))
	require.NoError(t, err)
	return watch
}

func newWatch(t *testing.T) *http.Request {
	t.Helper()
	watching := newRequest(t, http.MethodGet, "")
	watching.URL.Path, watching.URL.RawQuery = "/api/v1/pods", "watch=true"
	return watching
}

// TestTheLastReplicaIsWaitedForHoweverLong has requests and a watch at the only replica when it stops for half a minute. It may only be busy.
func TestTheLastReplicaIsWaitedForHoweverLong(t *testing.T) {
	standsStill(t, func(t *testing.T, f *fleet) {
		watch := f.watch(t)
		waiting := []<-chan error{f.send(t, "jane", http.MethodGet), f.send(t, "jane", http.MethodPost), f.send(t, user.Anonymous, http.MethodGet)}
		f.stop()
		for range 10 {
			time.Sleep(2500 * time.Millisecond)
			waiting = append(waiting, f.send(t, "jane", http.MethodGet), f.send(t, "jane", http.MethodPost), f.send(t, user.Anonymous, http.MethodPut))
		}
		synctest.Wait()
		for i, ended := range waiting {
			select {
			case err := <-ended:
				t.Fatalf("request %d did not wait: %v", i, err)
			default:
			}
		}
		f.resume()
		close(f.answer)
		for i, ended := range waiting {
			assert.NoError(t, <-ended, "request %d", i)
		}
		event, err := io.ReadAll(watch.Body)
		require.NoError(t, err, "the watch goes on")
		assert.Equal(t, "event", string(event))
	})
}

// TestReadsLeaveAFrozenReplicaAsSoonAsAnotherServes has the other one be there from the beginning, or come later.
func TestReadsLeaveAFrozenReplicaAsSoonAsAnotherServes(t *testing.T) {
	for name, later := range map[string]time.Duration{"from the beginning": 0, "later": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			standsStill(t, func(t *testing.T, f *fleet) {
				read, anonymous := f.send(t, "jane", http.MethodGet), f.send(t, user.Anonymous, http.MethodGet)
				stood := time.Now()
				f.stop()
				time.Sleep(later)
				f.add()
				assert.NoError(t, <-read)
				assert.NoError(t, <-anonymous)
				assert.Less(t, time.Since(stood), later+3*time.Second)
				f.resume() // so that the server can end
			})
		})
	}
}

// TestAWriteThatWasSentWaits has a write at a replica that freezes. It cannot be repeated.
func TestAWriteThatWasSentWaits(t *testing.T) {
	for _, name := range []string{"jane", user.Anonymous} { // one over HTTP/2, the other over HTTP/1.1
		for _, recovers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the replica recovers: %v", name, recovers), func(t *testing.T) {
				standsStill(t, func(t *testing.T, f *fleet) {
					written, read := f.send(t, name, http.MethodPost), f.send(t, name, http.MethodGet)
					f.add()
					stood := time.Now()
					f.stop()
					assert.NoError(t, <-read, "the other replica answers a read")
					if recovers {
						f.resume()
						close(f.answer)
						assert.NoError(t, <-written, "the write has its answer")
						return
					}
					err := <-written
					assert.Equal(t, connections.Broken, connections.ReasonOf(err), "nobody knows whether it was carried out: %v", err)
					assert.Less(t, time.Since(stood), 5500*time.Millisecond)
					f.resume() // so that the server can end
				})
			})
		}
	}
}

// TestAReplicaWhoseFeedSpeaksIsSeldomProbed has only a watch in flight, until a request waits.
func TestAReplicaWhoseFeedSpeaksIsSeldomProbed(t *testing.T) {
	standsStill(t, func(t *testing.T, f *fleet) {
		b, replica, answer := f.Backend, f.standing, f.answer
		_ = f.watch(t)
		// probed returns how often the replica is probed in a time in which its feed speaks as it should.
		probed := func(d time.Duration) int64 {
			before := replica.probes.Load()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(400 * time.Millisecond) {
				b.SetServing("replica:1", true, 0)
			}
			synctest.Wait()
			return replica.probes.Load() - before
		}
		_ = probed(time.Second)
		assert.LessOrEqual(t, probed(30*time.Second), int64(6))

		before := replica.probes.Load()
		b.SetServing("replica:1", false, 0)
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

// TestAQuietReplicaIsSeldomProbed has a feed that announces fewer messages, because there are no requests, until a write or a watch comes. By
// then, the last probe is a short or a long time ago.
func TestAQuietReplicaIsSeldomProbed(t *testing.T) {
	const few = 1200 * time.Millisecond
	for messages := 25; messages < 30; messages++ {
		for name, request := range map[string]func(*testing.T) *http.Request{
			"write": func(t *testing.T) *http.Request { return newRequest(t, http.MethodPost, "") }, "watch": newWatch,
		} {
			standsStill(t, func(t *testing.T, f *fleet) {
				b, replica := f.Backend, f.standing
				e := b.endpointAt("replica:1")
				before := replica.probes.Load()
				for range messages {
					b.SetServing("replica:1", true, few)
					time.Sleep(few)
				}
				synctest.Wait()
				assert.LessOrEqual(t, replica.probes.Load()-before, int64(7), "in 30 to 36 s")

				b.SetServing("replica:1", true, few)
				replica.stop()
				stood := time.Now()
				sent := request(t)
				go func() { _, _ = b.RoundTrip(sent) }()
				frozen := func() bool {
					b.mu.Lock()
					defer b.mu.Unlock()
					return e.health.rank() == rankFrozen
				}
				for !frozen() && time.Since(stood) < time.Minute {
					time.Sleep(10 * time.Millisecond)
				}
				checks := ownChecks()
				worst := checks.servingInterval + checks.timeout + lastWord + 10*time.Millisecond
				assert.LessOrEqual(t, time.Since(stood), worst, "since the %s", name)
				replica.resume()
				close(f.answer)
			})
		}
	}
}

// TestRequestsOfAReplicaThatSaysItIsQuietDoNotPutOffItsProbes has a replica that lies: it gets requests all the time.
func TestRequestsOfAReplicaThatSaysItIsQuietDoNotPutOffItsProbes(t *testing.T) {
	standsStill(t, func(t *testing.T, f *fleet) {
		b, replica := f.Backend, f.standing
		e := b.endpointAt("replica:1")
		e.load.Begin(balance.Short)
		defer e.load.End(balance.Short)
		before := replica.probes.Load()
		for range 100 {
			b.SetServing("replica:1", true, quietMost)
			time.Sleep(50 * time.Millisecond)
			e.disturb()
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		assert.GreaterOrEqual(t, replica.probes.Load()-before, int64(15), "in 10 s")
	})
}

// TestNoReplicaAnnouncesALongSilence has one that lies.
func TestNoReplicaAnnouncesALongSilence(t *testing.T) {
	standsStill(t, func(t *testing.T, f *fleet) {
		b, replica := f.Backend, f.standing
		b.SetServing("replica:1", true, 24*time.Hour)
		time.Sleep(quietMost + quietCounts)
		before := replica.probes.Load()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.GreaterOrEqual(t, replica.probes.Load()-before, int64(18), "in 10 s")
	})
}

// TestAFrozenReplicaWhoseFeedSpokeIsFoundAsSoon has the replica stand still at any time after its last message.
func TestAFrozenReplicaWhoseFeedSpokeIsFoundAsSoon(t *testing.T) {
	checks := ownChecks()
	worst := checks.servingInterval + checks.timeout + lastWord
	for after := time.Duration(0); after < 400*time.Millisecond; after += 30 * time.Millisecond {
		standsStill(t, func(t *testing.T, f *fleet) {
			b, replica := f.Backend, f.standing
			for range 20 {
				b.SetServing("replica:1", true, 0)
				time.Sleep(400 * time.Millisecond)
			}
			b.SetServing("replica:1", true, 0)
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
