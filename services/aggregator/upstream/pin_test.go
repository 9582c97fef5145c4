// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

func TestARequestForOneReplicaGoesToNoOther(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	var first, second atomic.Int64
	addresses := []string{throttling(t, pki, &first, "1"), throttling(t, pki, &second, "1"), "127.0.0.1:1"}
	b := newBackend(t, pki, addresses...)
	for _, address := range addresses {
		b.find(address, ready)
	}
	askAs := func(sender, address string) (*http.Response, error) {
		return b.RoundTrip(classified(t, by(sender, newRequest(t, http.MethodGet, "")), routing.Target{Owner: routing.Core, Replica: address}))
	}
	ask := func(address string) (*http.Response, error) { return askAs("jane", address) }

	const requests = 5
	for range requests {
		resp, err := ask(addresses[1])
		require.NoError(t, err)
		forget(resp)
	}
	if first.Load() != 0 || second.Load() != requests {
		t.Errorf("the replica got %d of %d requests, and another one %d", second.Load(), requests, first.Load())
	}

	var unreachable *UnreachableError
	if _, err := ask(addresses[2]); !errors.As(err, &unreachable) {
		t.Errorf("a replica that is lost: %v", err)
	}
	var unknown *UnknownReplicaError
	if _, err := ask("127.0.0.1:2"); !errors.As(err, &unknown) {
		t.Errorf("a replica that there is not: %v", err)
	}
	for sender, address := range map[string]string{"jane": "", user.Anonymous: "127.0.0.1:2"} {
		if resp, err := askAs(sender, address); err != nil {
			t.Errorf("%s learns which replicas exist: %v", sender, err)
		} else {
			forget(resp)
		}
	}
}
