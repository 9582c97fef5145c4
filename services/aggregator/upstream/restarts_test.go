// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
)

// process is a replica that a test can kill, stop, and start again at the same address.
type process struct {
	t       *testing.T
	config  *tls.Config
	handler http.Handler
	address string
	server  *http.Server
}

func (p *process) start() {
	p.t.Helper()
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.address = listener.Addr().String()
	p.server = &http.Server{Handler: p.handler, TLSConfig: p.config.Clone(), ErrorLog: log.New(io.Discard, "", 0)}
	server := p.server
	go server.ServeTLS(listener, "", "") //nolint:errcheck // it always ends with an error
}

// kill closes all connections at once.
func (p *process) kill() { _ = p.server.Close() }

// stop closes idle connections, and lets requests finish.
func (p *process) stop(ctx context.Context) { _ = p.server.Shutdown(ctx) }

// TestReplicasComeAndGo kills or stops replicas under load and starts them again. Nothing may be created twice, or not at all without an error.
// Every read must get an answer. If replicas only stop, every write must, too.
func TestReplicasComeAndGo(t *testing.T) {
	t.Run("killed", func(t *testing.T) { comeAndGo(t, 20, func(p *process) { p.kill() }) })
	t.Run("stopped", func(t *testing.T) {
		if unanswered := comeAndGo(t, 6, func(p *process) { p.stop(t.Context()) }); unanswered > 0 {
			t.Errorf("%d writes got no answer", unanswered)
		}
	})
}

// comeAndGo ends a replica in each round. It returns the number of writes without an answer.
func comeAndGo(t *testing.T, rounds int, end func(*process)) int64 {
	const replicas, clients = 3, 16
	pki := connectionstest.NewPKI(t)
	var created sync.Map // values are *atomic.Int64, by ID
	count := func(id string) *atomic.Int64 {
		n, _ := created.LoadOrStore(id, &atomic.Int64{})
		return n.(*atomic.Int64)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			count(string(body)).Add(1)
		}
		if req.URL.Path != "/readyz" {
			time.Sleep(time.Millisecond) // so that requests are in flight at the end of the replica
		}
		_, _ = io.WriteString(w, req.Method)
	})
	var processes []*process
	var addresses []string
	for range replicas {
		p := &process{t: t, config: pki.ServerConfig(t, coreServerName), handler: handler, address: "127.0.0.1:0"}
		p.start()
		defer p.kill()
		processes, addresses = append(processes, p), append(addresses, p.address)
	}
	b := newBackend(t, pki, addresses...)
	run(t, b)

	var load sync.WaitGroup
	stopped := make(chan struct{})
	var answered, unanswered, refused atomic.Int64
	progress := make([]atomic.Int64, clients)
	for client := range clients {
		load.Go(func() {
			for i := 0; ; i++ {
				progress[client].Store(int64(i))
				select {
				case <-stopped:
					return
				default:
				}
				if _, err := do(t, b, newRequest(t, http.MethodGet, "")); err != nil {
					t.Errorf("a read got no answer: %v", err)
				}
				id := fmt.Sprintf("%d-%d", client, i)
				_, err := do(t, b, newRequest(t, http.MethodPost, id))
				n := count(id).Load()
				var unreachable *UnreachableError
				switch {
				case n > 1:
					t.Errorf("it was created %d times", n)
				case err == nil && n == 0:
					t.Error("it was answered, and not created")
				case errors.As(err, &unreachable) && n != 0:
					t.Errorf("it was created, and that is denied: %v", err)
				case err == nil:
					answered.Add(1)
				case errors.As(err, &unreachable):
					refused.Add(1)
				default:
					unanswered.Add(1)
				}
			}
		})
	}
	for round := range rounds {
		p := processes[round%replicas]
		end(p)
		awaitProgress(progress)
		p.start()
		awaitProgress(progress)
	}
	close(stopped)
	load.Wait()
	t.Logf("%d writes answered, %d not known to be processed, %d not processed", answered.Load(), unanswered.Load(), refused.Load())
	return unanswered.Load() + refused.Load()
}

// awaitProgress waits until every client has finished its current requests. So no request meets the end of more than one replica, even on a slow
// machine.
func awaitProgress(clients []atomic.Int64) {
	before := make([]int64, len(clients))
	for i := range clients {
		before[i] = clients[i].Load()
	}
	for i := range clients {
		for clients[i].Load() < before[i]+2 {
			time.Sleep(time.Millisecond)
		}
	}
}
