// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/tripod-k8s/tripod/test/framework"
)

// With no core at all, custom resources are there for those who are known, for a while, and nothing is open that was
// not. Requests with unknown tokens get 503, not 401.
func (f *fleet) customResourcesGoOnWithoutAnyCore(t *testing.T) {
	for _, end := range []struct {
		name string
		stop func(*framework.Replica) error
	}{{"stopped", (*framework.Replica).Stop}, {"killed", (*framework.Replica).Kill}} {
		t.Run(end.name, func(t *testing.T) { f.withoutCore(t, end.stop) })
	}
}

// outage has the doors of a fleet without core. All are at aggregator-0.
type outage struct {
	// byCertificate has rights on custom resources, byToken as well; strangers have none.
	byCertificate, byToken, stranger, strangerByToken, nobody door
	// fresh makes doors for tokens that are good, and that no aggregator has seen, bad is for one that is not.
	fresh func() door
	bad   door
	// ofCore is an object of core.
	ofCore door
	// voided is for a token that ends during the outage. void ends it, behind core's back.
	voided door
	void   func(context.Context) error
}

func (f *fleet) withoutCore(t *testing.T, stop func(*framework.Replica) error) {
	o := f.newOutage(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*giveUp)
	defer cancel()

	// Aggregators have the answers of the last core about tokens.
	require.NoError(t, stop(f.Replica("core-1")))
	o.know(ctx, t)
	began := time.Now()
	var stopping errgroup.Group
	stopping.Go(func() error { return stop(f.Replica("core-0")) })
	defer f.returnOfCore(t, o, &stopping)
	// Good tokens are good until core is gone, and unknown after that.
	for {
		a, err := o.fresh().ask(ctx)
		require.NoError(t, err)
		if a.Code == http.StatusServiceUnavailable {
			expectRetry(t, "a good token that is not known", a)
			break
		}
		require.Equal(t, http.StatusOK, a.Code, "a good token that is not known: %v", a)
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("core is known to be gone after %s", milliseconds(time.Since(began)))

	// A core that stops answers requests for a moment longer than questions.
	require.NoError(t, o.ofCore.becomes(ctx, http.StatusServiceUnavailable))

	// While what is known of tokens counts.
	expect(ctx, t, "a known token", o.byToken, http.StatusOK)
	expect(ctx, t, "a known token without rights", o.strangerByToken, http.StatusForbidden)
	o.expectRest(ctx, t)
	for {
		a, err := o.byToken.ask(ctx)
		require.NoError(t, err)
		if a.Code != http.StatusOK {
			expectRetry(t, "a known token, after the grace,", a)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("the aggregator accepts a cached token for %s after the SIGTERM of core, with a grace of %s", time.Since(began), identityGrace)
	// After that.
	expect(ctx, t, "a known token without rights, after the grace,", o.strangerByToken, http.StatusServiceUnavailable)
	o.expectRest(ctx, t)
	require.NoError(t, o.void(ctx))
	f.restartExtensions(ctx, t)
}

// newOutage makes tokens, and doors for their owners and for others.
func (f *fleet) newOutage(t testing.TB) outage {
	t.Helper()
	client := f.promptly(t)
	through := f.Through("aggregator-0")
	certificate, err := through.UserConfig("carl")
	require.NoError(t, err)
	elsewhere := "/apis/example.com/v1/namespaces/kube-system/widgets"
	known := withToken(through, issue(t, client, "robot", "", ""))
	account := newAccount(t, client)
	voided := withToken(through, issue(t, client, account.Name, "", ""))
	o := outage{
		byCertificate:   newDoor(t, "a certificate", certificate, widgetsPath),
		stranger:        newDoor(t, "a certificate without rights", certificate, elsewhere),
		byToken:         newDoor(t, "a known token", known, widgetsPath),
		strangerByToken: newDoor(t, "a known token without rights", known, elsewhere),
		nobody:          newDoor(t, "nobody", through.Anonymous(), widgetsPath),
		bad:             newDoor(t, "a bad token", withToken(through, "of-nobody"), widgetsPath),
		ofCore:          newDoor(t, "core", certificate, configMapsPath),
		voided:          newDoor(t, "a token that ends", voided, widgetsPath),
		void:            func(ctx context.Context) error { return f.deleteAccount(ctx, account.Name) },
	}
	fresh := f.freshTokens(t)
	o.fresh = func() door { return newDoor(t, "a new token", withToken(through, fresh()), widgetsPath) }
	return o
}

// know has the aggregator ask about tokens that are to be known.
func (o outage) know(ctx context.Context, t testing.TB) {
	t.Helper()
	for _, d := range []door{o.byCertificate, o.byToken, o.ofCore, o.voided} {
		require.NoError(t, d.becomes(ctx, http.StatusOK))
	}
	expect(ctx, t, "a known token without rights", o.strangerByToken, http.StatusForbidden)
	expect(ctx, t, "a bad token", o.bad, http.StatusUnauthorized)
}

// deleteAccount deletes a service account as nothing that watches core can see.
func (f *fleet) deleteAccount(ctx context.Context, name string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{f.etcd}, DialTimeout: giveUp})
	if err != nil {
		return err
	}
	defer closing(client)
	deleted, err := client.Delete(ctx, "/registry/serviceaccounts/test/"+name)
	if err == nil && deleted.Deleted != 1 {
		err = fmt.Errorf("%d keys of service account %s", deleted.Deleted, name)
	}
	return err
}

// expectRest expects what holds as long as there is no core.
func (o outage) expectRest(ctx context.Context, t testing.TB) {
	t.Helper()
	expect(ctx, t, "a certificate", o.byCertificate, http.StatusOK)
	expect(ctx, t, "a certificate without rights", o.stranger, http.StatusForbidden)
	expect(ctx, t, "nobody", o.nobody, http.StatusForbidden)
	expect(ctx, t, "a bad token", o.bad, http.StatusServiceUnavailable)
	expect(ctx, t, "an object of core", o.ofCore, http.StatusServiceUnavailable)
}

// expect expects the code of an answer. A 503 has Retry-After.
func expect(ctx context.Context, t testing.TB, what string, d door, code int) {
	t.Helper()
	a, err := d.ask(ctx)
	switch {
	case err != nil:
		t.Errorf("%s: %v", what, err)
	case a.Code != code:
		t.Errorf("%s: %v, want %d", what, a, code)
	case code == http.StatusServiceUnavailable:
		expectRetry(t, what, a)
	}
}

func expectRetry(t testing.TB, what string, a answer) {
	t.Helper()
	if a.Code != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		t.Errorf("%s: %v, want 503 with a Retry-After", what, a)
	}
}

// returnOfCore starts one replica, and expects that all is well with it. Then it starts the other.
func (f *fleet) returnOfCore(t testing.TB, o outage, stopping *errgroup.Group) {
	t.Helper()
	assert.NoError(t, stopping.Wait())
	began := time.Now()
	require.NoError(t, f.Replica("core-0").Start())
	defer func() {
		assert.NoError(t, f.Replica("core-1").Start())
		for _, name := range []string{"core-1", "extensions-1"} {
			assert.NoError(t, f.Replica(name).WaitReady(context.Background()))
		}
	}()
	require.NoError(t, f.Replica("core-0").WaitReady(t.Context()))
	ready := time.Now()
	// A token that ended meanwhile is never good again, whatever the aggregator remembers.
	for {
		a, err := o.voided.ask(t.Context())
		require.NoError(t, err)
		if a.Code == http.StatusUnauthorized {
			break
		}
		if a.Code != http.StatusServiceUnavailable {
			t.Errorf("a token that ended while core was away: %v", a)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, d := range []door{o.byToken, o.byCertificate, o.ofCore, o.fresh()} {
		assert.NoError(t, d.becomes(t.Context(), http.StatusOK))
	}
	t.Logf("one core was ready after %s, and all was well %s later", time.Since(began), milliseconds(time.Since(ready)))
	expect(t.Context(), t, "a bad token, after the return of core,", o.bad, http.StatusUnauthorized)
	expect(t.Context(), t, "a known token without rights, after the return of core,", o.strangerByToken, http.StatusForbidden)
}

// restartExtensions starts a replica of extensions while there is no core. It has no policy then, and reports that.
func (f *fleet) restartExtensions(ctx context.Context, t testing.TB) {
	t.Helper()
	replica := f.Replica("extensions-1")
	require.NoError(t, replica.Kill())
	require.NoError(t, replica.Start())
	d := newDoor(t, "extensions-1", f.As("extensions-1", named("carl")), widgetsPath)
	framework.Eventually(t, "extensions-1 listens", func(ctx context.Context) error {
		_, err := d.ask(ctx)
		return err
	})
	for range 10 {
		expect(ctx, t, "a user whose rights extensions-1 cannot know", d, http.StatusServiceUnavailable)
	}
	response, err := http.Get(replica.ProbeURL + "/readyz")
	require.NoError(t, err)
	defer closing(response.Body)
	if response.StatusCode == http.StatusOK {
		t.Error("extensions-1 says that it is ready, without a policy")
	}
}
