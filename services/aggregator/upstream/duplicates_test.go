// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/replay"
)

// TestNothingIsProcessedTwice cuts connections at every stage of a request. It counts on both replicas what may have been processed. A write must
// arrive at most once. Every request with a safe retry must get an answer.
func TestNothingIsProcessedTwice(t *testing.T) {
	long := strings.Repeat("x", 3*replay.Limit)
	requests := []struct {
		name, method, body string
		header             string
	}{
		{name: "GET", method: http.MethodGet},
		{name: "HEAD", method: http.MethodHead},
		{name: "POST", method: http.MethodPost, body: "content"},
		{name: "long POST", method: http.MethodPost, body: long},
		{name: "POST without a body", method: http.MethodPost},
		{name: "PUT", method: http.MethodPut, body: "content"},
		{name: "PATCH", method: http.MethodPatch, body: "content"},
		{name: "DELETE", method: http.MethodDelete},
		// net/http's Transport retries these requests.
		{name: "DELETE with a key", method: http.MethodDelete, header: "Idempotency-Key"},
		{name: "POST with a key", method: http.MethodPost, body: "content", header: "X-Idempotency-Key"},
	}
	protocols := []struct {
		name string
		// user is a user whose requests use that protocol.
		user   string
		faults []connectionstest.Fault
	}{
		{"HTTP/1.1", user.Anonymous, connectionstest.HTTP1Faults},
		{"HTTP/2", "jane", connectionstest.HTTP2Faults},
	}
	pki := connectionstest.NewPKI(t)
	config := pki.ServerConfig(t, coreServerName)
	for _, protocol := range protocols {
		for _, fault := range protocol.faults {
			for _, request := range requests {
				for _, connected := range []bool{false, true} {
					if connected && fault == connectionstest.BeforeHandshake {
						continue
					}
					name := protocol.name + "/" + string(fault) + "/" + request.name + map[bool]string{false: "/new connection", true: "/known connection"}[connected]
					t.Run(name, func(t *testing.T) {
						bad := connectionstest.Serve(t, config, connectionstest.None)
						good := connectionstest.Serve(t, config, connectionstest.None)
						b := newBackend(t, pki, bad.Address, good.Address)
						b.find(bad.Address, ready) // the other replica is for the retry
						if connected {
							if _, err := do(t, b, by(protocol.user, newRequest(t, http.MethodPut, ""))); err != nil {
								t.Fatal(err)
							}
						}
						bad.SetFault(fault)
						before := bad.Processed()

						req := newRequest(t, request.method, request.body)
						if request.header != "" {
							req.Header.Set(request.header, "key")
						}
						_, err := do(t, b, by(protocol.user, req))

						safe := request.method == http.MethodGet || request.method == http.MethodHead
						processed := bad.Processed() - before + good.Processed()
						if !safe && processed > 1 {
							t.Errorf("it was processed %d times", processed)
						}
						repeatable := safe || (fault.SaysUnprocessed() && len(request.body) <= replay.Limit)
						switch {
						case fault == connectionstest.AmidAnswer && !safe:
							if err == nil {
								t.Error("half an answer is taken for a whole one")
							}
						case fault.Answers() || repeatable:
							assert.NoError(t, err, "it got no answer")
						}
						var unreachable *UnreachableError
						if errors.As(err, &unreachable) && processed > 0 && !safe {
							t.Errorf("it may have been processed, but that is denied: %v", err)
						}
					})
				}
			}
		}
	}
}
