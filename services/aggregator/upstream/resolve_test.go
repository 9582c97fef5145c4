// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
)

// names is a DNS server.
type names struct {
	mu        sync.Mutex
	addresses []string
	err       error
}

func (n *names) set(err error, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses, n.err = addresses, err
}

func (n *names) lookup(_ context.Context, host string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if host != "core.example.com" {
		return nil, errors.New("another name")
	}
	return n.addresses, n.err
}

func TestNamesStandForTheirAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registerMetrics()
		dns := &names{}
		dns.set(nil, "10.0.0.2", "10.0.0.1")
		b := &Backend{
			name: Core, policy: balance.TwoChoices{}, lookup: dns.lookup,
			resolved: map[string][]string{}, endpoints: map[string]*endpoint{},
			changed: make(chan struct{}, 1), resolveNow: make(chan struct{}, 1),
		}
		var changes atomic.Int64
		b.Subscribe(func() { changes.Add(1) })
		require.NoError(t, b.SetServers([]string{"https://10.1.0.1:6444", "dns:///core.example.com:6443"}))
		ctx, cancel := context.WithCancel(t.Context())
		go b.resolve(ctx)
		expect := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			assert.Empty(t, cmp.Diff(append(want, "10.1.0.1:6444"), b.Addresses()), what)
		}
		expect("at first", "10.0.0.1:6443", "10.0.0.2:6443")

		dns.set(nil, "10.0.0.2", "fd00::3")
		expect("not at once", "10.0.0.1:6443", "10.0.0.2:6443")
		time.Sleep(resolveInterval)
		want := []string{"10.0.0.2:6443", "10.1.0.1:6444", "[fd00::3]:6443"}
		synctest.Wait()
		assert.Empty(t, cmp.Diff(want, b.Addresses()), "after a change")
		seen := changes.Load()

		dns.set(errors.New("no answer"))
		time.Sleep(resolveInterval)
		synctest.Wait()
		assert.Empty(t, cmp.Diff(want, b.Addresses()), "without an answer")
		assert.Equal(t, seen, changes.Load(), "subscribers hear of no change")

		dns.set(nil, "10.0.0.4")
		signal(b.resolveNow)
		expect("at once when there is a reason", "10.0.0.4:6443")

		b.update(b.endpoints["10.0.0.4:6443"], "test", func(h *health) { h.condition = ready })
		dns.set(&net.DNSError{IsNotFound: true})
		time.Sleep(resolveInterval)
		expect("not to be found, but ready", "10.0.0.4:6443")
		b.update(b.endpoints["10.0.0.4:6443"], "test", func(h *health) { h.condition = refusing })
		time.Sleep(resolveInterval)
		expect("not to be found, and not ready")

		dns.set(nil, "10.0.0.5")
		require.NoError(t, b.SetServers([]string{"https://10.1.0.1:6444"}))
		time.Sleep(2 * resolveInterval)
		expect("without the name")
		cancel()
		synctest.Wait()
	})
}
