// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
)

func TestARequestForANewCustomResourceFindsTheReplicaThatHadItFirst(t *testing.T) {
	foos := schema.GroupResource{Group: "example.com", Resource: "foos"}
	for _, test := range []struct {
		name     string
		resource schema.GroupResource
		// first: the aggregator knows which replica was first. behind: that replica does not have the resource yet.
		first, behind bool
		status        int
		want          int
		requests      int64
		held          bool
	}{
		{"it is known who had it", foos, true, false, http.StatusNotFound, http.StatusOK, 1, false},
		{"it is not new", foos, false, false, http.StatusNotFound, http.StatusNotFound, 1, false},
		{"the one that had it says so", foos, true, true, http.StatusNotFound, http.StatusNotFound, 1, false},
		{"it is held back", foos, true, false, http.StatusNotFound, http.StatusNotFound, 1, true},
		{"another answer", foos, true, false, http.StatusForbidden, http.StatusForbidden, 1, false},
		{"a definition", schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, true, false, http.StatusNotFound, http.StatusNotFound, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			pki := connectionstest.NewPKI(t)
			var requests atomic.Int64
			without := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
				requests.Add(1)
				_, _ = io.Copy(io.Discard, req.Body)
				w.WriteHeader(test.status)
			})
			with := serveEcho(t, pki)
			b := newBackend(t, pki, without, with)
			b.name, b.policy = Extensions, balance.TwoChoices{}
			b.find(without, ready)
			b.find(with, ready)
			b.SetHeldBack(with, test.held)
			for range 3 {
				b.endpoints[with].load.Begin(balance.Short) // so that the call asks the other one first
			}
			b.firstReplica = func(resource schema.GroupResource) (string, bool) {
				if test.behind {
					return without, test.first
				}
				return with, test.first && resource == foos
			}
			req := newRequest(t, http.MethodPost, "content")
			req.URL.Path = "/apis/" + test.resource.Group + "/v1/" + test.resource.Resource
			resp, err := b.RoundTrip(classified(t, req, routing.Target{Owner: routing.Extensions}))
			require.NoError(t, err)
			defer resp.Body.Close()
			answer, err := io.ReadAll(resp.Body)
			if resp.StatusCode != test.want || err != nil || requests.Load() != test.requests {
				t.Errorf("answer is %s after %d requests, error %v", resp.Status, requests.Load(), err)
			}
			if resp.StatusCode == http.StatusOK && string(answer) != "POST content" {
				t.Errorf("answer is %q", answer)
			}
		})
	}
}
