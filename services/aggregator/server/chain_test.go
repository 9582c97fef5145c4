// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/services/aggregator/clients"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/shared/policy"
)

// TestRequestsCountForWhoeverIsAuthenticated has one user impersonate others, in as many requests at a time as are allowed.
func TestRequestsCountForWhoeverIsAuthenticated(t *testing.T) {
	for name, test := range map[string]struct {
		as                  func(i int) string
		memory, connections int64
		most                int
	}{
		"memory, as many users":            {as: func(i int) string { return fmt.Sprint("user-", i) }, memory: 2 << 20, most: 16},
		"memory, as the server":            {as: func(int) string { return user.APIServerUser }, memory: 2 << 20, most: 16},
		"connections, as many users":       {as: func(i int) string { return fmt.Sprint("user-", i) }, connections: 1 << 20, most: 15},
		"connections, as the server":       {as: func(int) string { return user.APIServerUser }, connections: 1 << 20, most: 15},
		"connections, as an anonymous one": {as: func(int) string { return user.Anonymous }, connections: 1 << 20, most: 15},
	} {
		t.Run(name, func(t *testing.T) {
			allowed, err := policy.New(t.Context(), &policy.Options{Modes: []string{"AlwaysAllow"}}, &rest.Config{}, "", nil)
			require.NoError(t, err)
			memory := requestmemory.New(test.memory)
			h := &chains{table: routing.NewTable(func(string) bool { return true }), policy: allowed, webhooks: &webhookCalls{},
				stop: newShutdown(0, make(chan struct{})), answerTimeout: time.Minute, memory: memory, clients: clients.New(test.connections, memory)}
			config := genericapiserver.NewConfig(aggregatorscheme.Codecs)
			config.FeatureGate, config.Authorization.Authorizer = utilfeature.DefaultFeatureGate, allowed
			config.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				return &authenticator.Response{User: &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}}, true, nil
			})
			arrived, proceed, ended := make(chan struct{}, 64), make(chan struct{}), make(chan int, 64)
			server := httptest.NewUnstartedServer(h.build(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				arrived <- struct{}{}
				<-proceed
			}), config))
			server.Listener = h.clients.Listen(server.Listener)
			server.Start()
			defer server.Close()
			var asking sync.WaitGroup
			defer asking.Wait()
			defer close(proceed)
			for i := range 64 {
				asking.Go(func() {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/apis/apiregistration.k8s.io/v1/apiservices", nil)
					assert.NoError(t, err)
					req.Header.Set("Impersonate-User", test.as(i))
					resp, err := server.Client().Do(req)
					if err != nil {
						ended <- 0
						return
					}
					_ = resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						ended <- resp.StatusCode
					}
				})
				select {
				case <-arrived:
				case code := <-ended:
					assert.Equal(t, http.StatusTooManyRequests, code)
					assert.InDelta(t, test.most, i, 1, "requests at a time")
					return
				}
			}
			t.Error("nothing was refused")
		})
	}
}

// TestAnAnswerThatNobodyReadsEnds requests a tunnel. What becomes one has no end.
func TestAnAnswerThatNobodyReadsEnds(t *testing.T) {
	const timeout = 10 * time.Millisecond
	for name, hijacks := range map[string]bool{"an answer": false, "a tunnel": true} {
		t.Run(name, func(t *testing.T) {
			written := make(chan error, 1)
			server := httptest.NewServer(routing.NewTable(func(string) bool { return true }).WithRequest(endUnread(timeout,
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if !hijacks {
						var err error
						for err == nil {
							_, err = w.Write(make([]byte, 1<<20))
						}
						written <- err
						return
					}
					conn, _, err := http.NewResponseController(w).Hijack()
					if assert.NoError(t, err) {
						<-time.After(2 * timeout)
						_, err = conn.Write([]byte("late"))
						assert.NoError(t, conn.Close())
					}
					written <- err
				}))))
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "GET /api/v1/pods HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
			require.NoError(t, err)
			if err := <-written; hijacks {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			}
		})
	}
}
