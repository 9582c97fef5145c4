// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// things is a path of an aggregated API server.
const things = "/apis/third.example.com/v1/things"

// newThing returns a request for an aggregated API server, with further headers.
func newThing(t *testing.T, sender *user.DefaultInfo, method, body string, header http.Header) *http.Request {
	t.Helper()
	req := newRequest(t, method, body)
	req.URL.Path = things
	for name, values := range header {
		req.Header[name] = values
	}
	req = req.WithContext(request.WithUser(req.Context(), sender))
	return classified(t, req, routing.Target{Owner: routing.Aggregated})
}

var (
	jane    = &user.DefaultInfo{Name: "jane"}
	mallory = &user.DefaultInfo{Name: "mallory"}
	unknown = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
)

// big has headers of 200 KiB.
var big = http.Header{"X-Big": {strings.Repeat("a", 200<<10)}}

// protocols are the forms of an API server that has HTTP/2.
var protocols = map[string]func(*httptest.Server){
	"both": func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	},
	// As some servers of Go, it speaks HTTP/1.1 to clients that insist on it.
	"HTTP/2 by choice": func(s *httptest.Server) { s.EnableHTTP2 = true },
	// Go lets clients of HTTP/1.1 connect. Then it closes the connection.
	"HTTP/2 only": func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP2(true)
	},
	"HTTP/2 only, and no handshake without": func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.TLS = &tls.Config{}
		s.TLS.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			config := s.TLS.Clone()
			if !slices.Contains(hello.SupportedProtos, "h2") {
				config.NextProtos = []string{"nothing"}
			}
			return config, nil
		}
	},
}

func startThird(t *testing.T, protocol func(*httptest.Server), handler http.HandlerFunc, configure func(*http.Server), tune ...func(*Backend)) *Backend {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	protocol(server)
	if configure != nil {
		configure(server.Config)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	b := newAggregated(t, address)
	for _, change := range tune {
		change(b)
	}
	changed := changes(b)
	run(t, b)
	awaitStates(t, b, changed, map[string]string{address: "ready"})
	return b
}

// ejections returns how often replicas of a backend were ejected.
func ejections(t *testing.T, b *Backend) (sum float64) {
	t.Helper()
	for address := range b.endpoints {
		for _, reason := range ejectionReasons {
			n, _ := series(t, "ejections_total", "endpoint", address, "reason", reason)
			sum += n
		}
	}
	return sum
}

// connKey is the key of the connection in the context of a request at the server.
type connKey struct{}

// closing closes the connection of a request that is over a limit, as servers do that do not announce their limits.
func closing(req *http.Request) {
	conn, _ := req.Context().Value(connKey{}).(net.Conn)
	_ = conn.Close() // that is the fault
}

func rememberConn(s *http.Server) {
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
}

func TestARequestForWhichAServerClosesItsConnectionHurtsNoOther(t *testing.T) {
	for name, protocol := range protocols {
		for _, disliked := range []string{"headers", "path", "trailers"} {
			t.Run(name+"/"+disliked, func(t *testing.T) {
				arrived, release := make(chan struct{}), make(chan struct{})
				b := startThird(t, protocol, func(_ http.ResponseWriter, req *http.Request) {
					switch {
					case req.Header.Get("X-Big") != "", req.URL.RawQuery != "", len(req.Trailer) > 0:
						closing(req)
					case req.Method == http.MethodPost:
						arrived <- struct{}{}
						<-release
					}
				}, rememberConn)
				var others errgroup.Group
				for range 3 {
					others.Go(func() error {
						answer, err := do(t, b, newThing(t, jane, http.MethodPost, "x", nil))
						if err != nil || answer != "" {
							return fmt.Errorf("%q %w", answer, err)
						}
						return nil
					})
					<-arrived
				}
				for _, method := range []string{http.MethodPost, http.MethodGet} {
					req := newThing(t, mallory, method, "y", nil)
					switch disliked {
					case "headers":
						req.Header["X-Big"] = big["X-Big"]
					case "path":
						req.URL.RawQuery = "q=" + strings.Repeat("a", 200<<10)
					case "trailers":
						req.ContentLength, req.Trailer = -1, http.Header{"X-Trailer": {"a"}}
					}
					_, err := do(t, b, req)
					require.Error(t, err, "the server closes the connection")
				}
				close(release)
				assert.NoError(t, others.Wait(), "requests of others")
				assert.Zero(t, ejections(t, b))
			})
		}
	}
}

func TestHeadersThatAServerDoesNotAcceptAreNotSent(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			b := startThird(t, protocol, func(_ http.ResponseWriter, req *http.Request) {
				assert.Empty(t, req.Header["X-Big"])
			}, func(s *http.Server) { s.MaxHeaderBytes = 64 << 10 })
			// The first one finds no connection whose settings are known.
			for range 2 {
				for _, method := range []string{http.MethodPost, http.MethodGet} {
					_, err := do(t, b, newThing(t, mallory, method, "x", big))
					assert.True(t, IsTooLarge(err), "%v", err)
				}
			}
			_, err := do(t, b, newThing(t, jane, http.MethodGet, "", nil))
			assert.NoError(t, err)
			assert.Zero(t, ejections(t, b))
			for address := range b.endpoints {
				open, _ := series(t, "connections", "endpoint", address, "protocol", "h2")
				assert.Equal(t, 2.0, open, "one for all, and one for large headers, which the server has not closed")
			}
		})
	}
}

// The aggregator prefers HTTP/1.1 for short reads and for anonymous requests.
func TestAServerThatSpeaksOnlyHTTP2ServesEverybody(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			b := startThird(t, protocol, func(w http.ResponseWriter, req *http.Request) {
				_, _ = io.WriteString(w, req.Method) // the client checks the answer
			}, nil)
			for range 20 {
				for _, sender := range []*user.DefaultInfo{jane, unknown} {
					for _, method := range []string{http.MethodGet, http.MethodPost} {
						answer, err := do(t, b, newThing(t, sender, method, "", nil))
						assert.NoError(t, err, "%s %s", sender.Name, method)
						assert.Equal(t, method, answer)
					}
				}
				// Such a server has no tunnels, which is no fault of a replica. For other requests, a handler decides the answer.
				_, _ = do(t, b, newThing(t, mallory, http.MethodGet, "", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}))
			}
			assert.Zero(t, ejections(t, b))
		})
	}
}

// A probe that fails twice takes a replica for lost, and the last one makes the API unavailable.
func TestRequestsForWhichAServerClosesItsConnectionsDoNotMakeItUnready(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			var probes atomic.Int64
			b := startThird(t, protocol, func(_ http.ResponseWriter, req *http.Request) {
				if req.URL.Path == things {
					closing(req)
					return
				}
				time.Sleep(2 * time.Millisecond) // clients do their worst meanwhile
				probes.Add(1)
			}, rememberConn, func(b *Backend) { b.checks.pause = time.Millisecond })
			var unready atomic.Pointer[Replica]
			b.Subscribe(func() {
				if r := b.Replicas()[0]; !r.Ready {
					unready.Store(&r)
				}
			})
			var attackers sync.WaitGroup
			for range 4 {
				attackers.Go(func() {
					for until := probes.Load() + 8; probes.Load() < until && t.Context().Err() == nil; {
						_, _ = do(t, b, newThing(t, mallory, http.MethodPost, "x", nil)) // it fails
					}
				})
			}
			attackers.Wait()
			assert.Nil(t, unready.Load())
		})
	}
}
