// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/tripod-k8s/tripod/test/framework"
)

// An aggregator follows one replica of core, and another when that one ends. No client notices: neither who is known, nor
// who comes for the first time.
func (f *fleet) tokensGoOnWhenAnyCoreEnds(t *testing.T) {
	fresh := f.freshTokens(t)
	for _, end := range []struct {
		name string
		stop func(*framework.Replica) error
	}{{"stopped", (*framework.Replica).Stop}, {"killed", (*framework.Replica).Kill}} {
		for _, replica := range []string{"core-1", "core-0"} {
			t.Run(replica+" is "+end.name, func(t *testing.T) {
				f.tokensGoOn(t, fresh, f.Replica(replica), end.stop)
			})
		}
	}
}

func (f *fleet) tokensGoOn(t *testing.T, fresh func() string, replica *framework.Replica, stop func(*framework.Replica) error) {
	through := f.Through("aggregator-0")
	known := newDoor(t, "a known token", withToken(through, fresh()), widgetsPath)
	require.NoError(t, known.becomes(t.Context(), http.StatusOK))
	hammering := hammerAt(t, known)
	var ending errgroup.Group
	again := make(chan struct{})
	ending.Go(func() error {
		defer close(again)
		if err := stop(replica); err != nil {
			return err
		}
		if err := replica.Start(); err != nil {
			return err
		}
		return replica.WaitReady(t.Context())
	})
	asked, refused, firstRefused, lastRefused := 0, 0, time.Time{}, time.Time{}
	for over := false; !over; asked++ {
		select {
		case <-again:
			over = true
		default:
		}
		a, err := newDoor(t, "a new token", withToken(through, fresh()), widgetsPath).ask(t.Context())
		switch {
		case err != nil || a.Code != http.StatusOK && a.Code != http.StatusServiceUnavailable:
			t.Errorf("a token that comes for the first time: %v, %v", a, err)
		case a.Code == http.StatusServiceUnavailable:
			expectRetry(t, "a token that comes for the first time", a)
			if refused++; refused == 1 {
				firstRefused = time.Now()
			}
			lastRefused = time.Now()
		}
	}
	require.NoError(t, ending.Wait())
	if refused > 0 {
		t.Errorf("%d requests with new tokens got 503, for %s", refused, milliseconds(lastRefused.Sub(firstRefused)))
	}
	attempts := hammering.stop()
	for _, a := range attempts {
		assert.Equal(t, http.StatusOK, a.code, "a known token")
	}
	assert.NoError(t, f.Replica("extensions-1").WaitReady(t.Context()))
	t.Logf("%d requests with a known token and %d with new ones", len(attempts), asked)
}

// freshTokens returns a function that makes good tokens of a service account, each for the first time, without asking
// the cluster.
func (f *fleet) freshTokens(t testing.TB) func() string {
	t.Helper()
	account, err := f.promptly(t).CoreV1().ServiceAccounts("test").Get(t.Context(), "robot", metav1.GetOptions{})
	require.NoError(t, err)
	const issuer = "https://kubernetes.default.svc.cluster.local"
	return func() string {
		now := time.Now()
		token, err := f.signAsCluster(map[string]any{
			"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:test:robot", "jti": string(uuid.NewUUID()),
			"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
			"kubernetes.io": map[string]any{"namespace": "test", "serviceaccount": map[string]any{"name": account.Name, "uid": account.UID}},
		})
		require.NoError(t, err)
		return token
	}
}
