// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/test/framework"
)

// enough is how many requests show that an endpoint is used or not.
const enough = 400

// There is one sample API server, and one name for its APIService, so these are steps of one test.
func TestAnAPIServerWithTwoEndpoints(t *testing.T) {
	s := newServer(t)
	first, second := s.endpoints[0], s.endpoints[1]
	s.awaitCondition(t, apiregistrationv1.ConditionFalse, "FailedDiscoveryCheck", first, second)
	first.start(t)
	s.awaitCondition(t, apiregistrationv1.ConditionTrue, "SomeEndpointsFail", second)
	available(t)

	t.Run("is served by one while the other was never there", s.servedByOne)
	t.Run("is served by both when the other has come", s.servedByBoth)
	t.Run("is served by the other when one dies, and by both when it is back", s.losesOne)
	t.Run("is unavailable without endpoints, and available with one", s.losesBoth)
}

func (s *server) servedByOne(t *testing.T) {
	watch := follow(t, s.Namespace, aggregators[1])
	l := startLoad(t, s)
	l.awaitRequests(t, enough)
	l.finish()
	l.everythingWasServed(t, 0)
	l.everythingIsThere(t)
	watch.sawAll(t, l)
}

func (s *server) servedByBoth(t *testing.T) {
	first, second := s.endpoints[0], s.endpoints[1]
	second.start(t)
	s.awaitCondition(t, apiregistrationv1.ConditionTrue, "Passed")
	before := [2]float64{s.served(t, first), s.served(t, second)}
	l := startLoad(t, s)
	l.awaitRequests(t, enough)
	l.finish()
	l.everythingWasServed(t, 0)
	shares := [2]float64{s.served(t, first) - before[0], s.served(t, second) - before[1]}
	t.Logf("the endpoints served %v requests", shares)
	for i, share := range shares {
		if share < enough/4 {
			t.Errorf("endpoint %d served %v of %v requests", i, share, l.total())
		}
	}
}

func (s *server) losesOne(t *testing.T) {
	first := s.endpoints[0]
	watches := []*follower{follow(t, s.Namespace, aggregators[0]), follow(t, s.Namespace, aggregators[1])}
	l := startLoad(t, s)
	l.awaitRequests(t, enough)
	first.kill(t)
	died := time.Now()
	s.awaitCondition(t, apiregistrationv1.ConditionTrue, "SomeEndpointsFail", first)
	t.Logf("the condition named the dead endpoint after %s", milliseconds(time.Since(died)))
	l.awaitRequests(t, enough)

	first.start(t)
	awaitListening(t, first)
	returned := time.Now()
	s.awaitCondition(t, apiregistrationv1.ConditionTrue, "Passed")
	t.Logf("the condition was good %s after the endpoint listened again", milliseconds(time.Since(returned)))
	before := s.served(t, first)
	l.awaitRequests(t, enough)
	l.finish()
	if share := s.served(t, first) - before; share < enough/4 {
		t.Errorf("the endpoint that returned served %v requests", share)
	}
	l.everythingWasServed(t, clients)
	l.everythingIsThere(t)
	for _, w := range watches {
		w.sawAll(t, l)
	}
}

func (s *server) losesBoth(t *testing.T) {
	first, second := s.endpoints[0], s.endpoints[1]
	for _, e := range s.endpoints {
		e.kill(t)
	}
	died := time.Now()
	s.awaitCondition(t, apiregistrationv1.ConditionFalse, "FailedDiscoveryCheck", first, second)
	t.Logf("the condition was bad after %s", milliseconds(time.Since(died)))
	unavailable(t)
	second.start(t)
	awaitListening(t, second)
	returned := time.Now()
	s.awaitCondition(t, apiregistrationv1.ConditionTrue, "SomeEndpointsFail", first)
	t.Logf("the condition was good %s after an endpoint listened", milliseconds(time.Since(returned)))
	available(t)
	l := startLoad(t, s)
	l.awaitRequests(t, enough)
	l.finish()
	l.everythingWasServed(t, 0)
}

// available waits until every aggregator serves the group. One of them wrote the condition; the others observe it by a watch.
func available(t *testing.T) {
	t.Helper()
	for _, name := range aggregators {
		client := flunderClient(t, name)
		framework.Eventually(t, name+" serves the group", func(ctx context.Context) error {
			_, err := client.List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
	}
}

// unavailable expects the answers that clients get while no endpoint can be reached.
func unavailable(t *testing.T) {
	t.Helper()
	for _, name := range aggregators {
		config := fleet.Through(name).Admin()
		client, err := rest.HTTPClientFor(config)
		began := time.Now()
		require.NoError(t, err)
		resp, err := client.Get(config.Host + "/apis/" + group + "/v1alpha1/flunders")
		require.NoError(t, err)
		assert.NoError(t, resp.Body.Close())
		t.Logf("%s answered %d after %s", name, resp.StatusCode, milliseconds(time.Since(began)))
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s answers %s with Retry-After %q", name, resp.Status, resp.Header.Get("Retry-After"))
		}
	}
}
