// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	availabilitymetrics "k8s.io/kube-aggregator/pkg/controllers/status/metrics"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/aggregated"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

func well(address string) upstream.Replica {
	return upstream.Replica{Address: address, Probed: true, Ready: true, State: "ready"}
}

func refusing(address string) upstream.Replica {
	return upstream.Replica{Address: address, Probed: true, State: "refusing", Message: "connection refused"}
}

func unprobed(address string) upstream.Replica {
	return upstream.Replica{Address: address, State: "unprobed"}
}

func TestVerdicts(t *testing.T) {
	const yes, no, unknown = apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown
	for name, test := range map[string]struct {
		state   aggregated.State
		unknown bool
		status  apiregistrationv1.ConditionStatus
		reason  string
		message string
	}{
		"all endpoints are well": {
			state:  aggregated.State{Replicas: []upstream.Replica{well("a:1"), well("b:1")}},
			status: yes, reason: "Passed", message: "all checks passed",
		},
		"one fails": {
			state:  aggregated.State{Replicas: []upstream.Replica{well("a:1"), refusing("b:1"), unprobed("c:1")}},
			status: yes, reason: "SomeEndpointsFail", message: "1 of 3 endpoints fail, the others answer: b:1: connection refused",
		},
		"all fail": {
			state:  aggregated.State{Replicas: []upstream.Replica{refusing("a:1"), refusing("b:1")}},
			status: no, reason: "FailedDiscoveryCheck", message: "failing or missing response from a:1: connection refused; b:1: connection refused",
		},
		"none is there to be asked": {
			state:  aggregated.State{Problem: &aggregated.Problem{Status: unknown, Reason: "ServiceAccessError", Message: "it is hidden"}},
			status: unknown, reason: "ServiceAccessError", message: "it is hidden",
		},
		"a new one was not asked yet":   {state: aggregated.State{Replicas: []upstream.Replica{refusing("a:1"), unprobed("b:1")}}, unknown: true},
		"no address was taken over yet": {unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := ofAggregated(test.state)
			if known == test.unknown {
				t.Fatalf("it is known: %v, %+v", known, got)
			}
			want := verdict{kind: got.kind, status: test.status, reason: test.reason, message: test.message, facts: got.facts}
			assert.Empty(t, cmp.Diff(want, got, cmp.AllowUnexported(verdict{})))
		})
	}
}

func TestVerdictsOfABackend(t *testing.T) {
	for name, test := range map[string]struct {
		replicas []upstream.Replica
		unknown  bool
		reason   string
		message  string
	}{
		"one replica is ready":    {replicas: []upstream.Replica{refusing("a:1"), well("b:1")}, reason: "Passed", message: "all checks passed"},
		"none is":                 {replicas: []upstream.Replica{refusing("a:1"), refusing("b:1")}, reason: "NoReplicaReady", message: "no replica of core is ready: a:1: connection refused; b:1: connection refused"},
		"none is known":           {reason: "NoReplicaReady", message: "no replica of core is known"},
		"some were not asked":     {replicas: []upstream.Replica{refusing("a:1"), unprobed("b:1")}, unknown: true},
		"ready and not asked":     {replicas: []upstream.Replica{well("a:1"), unprobed("b:1")}, reason: "Passed", message: "all checks passed"},
		"nobody was asked so far": {replicas: []upstream.Replica{unprobed("b:1")}, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := ofBackend("core", test.replicas)
			if known == test.unknown || got.reason != test.reason || got.message != test.message {
				t.Errorf("got %+v, known %v", got, known)
			}
		})
	}
}

// states are what an aggregator knows of aggregated API servers.
type states struct {
	mu     sync.Mutex
	state  aggregated.State
	notify func(string)
	// conflict lists the backends that claim the group-version, unless that is uncertain.
	conflict  string
	uncertain bool
}

func (s *states) HasSynced() bool { return true }

func (s *states) State(string) (aggregated.State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.state.Replicas != nil
}

func (s *states) Conflict(*apiregistrationv1.APIService) (message string, certain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conflict, !s.uncertain
}

func (s *states) setConflict(message string, certain bool) {
	s.mu.Lock()
	s.conflict, s.uncertain = message, !certain
	s.mu.Unlock()
	s.notify("v1.example.com")
}

func (s *states) Subscribe(notify func(string)) { s.notify = notify }

func (s *states) set(replicas ...upstream.Replica) {
	s.mu.Lock()
	s.state = aggregated.State{Replicas: replicas}
	s.mu.Unlock()
	s.notify("v1.example.com")
}

// cluster is an APIService and the aggregators that keep its condition.
type cluster struct {
	client *fake.Clientset
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "example.com", Version: "v1",
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "third", Port: ptr.To[int32](443)},
		},
	}
	return &cluster{client: fake.NewClientset(service)}
}

// addAggregator starts the controller of one more aggregator.
func (c *cluster) addAggregator(ctx context.Context, t *testing.T) *states {
	t.Helper()
	known := &states{}
	factory := informers.NewSharedInformerFactory(c.client, 0)
	availability, err := NewAvailability(AvailabilityConfig{
		Informer: factory.Apiregistration().V1().APIServices(), Client: c.client.ApiregistrationV1(),
		AggregatedServers: known, Claims: known, Metrics: availabilitymetrics.New(),
	})
	require.NoError(t, err)
	factory.Start(ctx.Done())
	go availability.Run(ctx)
	synctest.Wait()
	return known
}

func (c *cluster) condition(t *testing.T) *apiregistrationv1.APIServiceCondition {
	t.Helper()
	return c.conditionOf(t, apiregistrationv1.Available)
}

func (c *cluster) conditionOf(t *testing.T, kind apiregistrationv1.APIServiceConditionType) *apiregistrationv1.APIServiceCondition {
	t.Helper()
	service, err := c.client.ApiregistrationV1().APIServices().Get(t.Context(), "v1.example.com", metav1.GetOptions{})
	require.NoError(t, err)
	return helper.GetAPIServiceConditionByType(service, kind)
}

// writes returns how often the condition was written.
func (c *cluster) writes() int {
	n := 0
	for _, action := range c.client.Actions() {
		if action.GetSubresource() == "status" {
			n++
		}
	}
	return n
}

// inBubble runs a test with a clock of its own.
func inBubble(t *testing.T, test func(t *testing.T, ctx context.Context, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		test(t, ctx, newCluster(t))
	})
}

func TestTheConditionFollowsTheEndpointsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, c *cluster) {
		known := c.addAggregator(ctx, t)
		if got := c.condition(t); got != nil {
			t.Fatalf("before anything is known: %v", got)
		}
		for _, step := range []struct {
			replicas []upstream.Replica
			status   apiregistrationv1.ConditionStatus
			message  string
		}{
			{[]upstream.Replica{well("a:1"), well("b:1")}, apiregistrationv1.ConditionTrue, "all checks passed"},
			{[]upstream.Replica{well("a:1"), refusing("b:1")}, apiregistrationv1.ConditionTrue, "b:1: connection refused"},
			{[]upstream.Replica{refusing("a:1"), well("b:1")}, apiregistrationv1.ConditionTrue, "a:1: connection refused"},
			{[]upstream.Replica{refusing("a:1"), refusing("b:1")}, apiregistrationv1.ConditionFalse, "a:1: connection refused; b:1: connection refused"},
			{[]upstream.Replica{well("a:1"), well("b:1")}, apiregistrationv1.ConditionTrue, "all checks passed"},
		} {
			known.set(step.replicas...)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if got := c.condition(t); got == nil || got.Status != step.status || !strings.HasSuffix(got.Message, step.message) {
				t.Errorf("%v: condition is %v", step.replicas, got)
			}
		}
	})
}

func TestOtherWordsForTheSameAreNotWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, c *cluster) {
		known := c.addAggregator(ctx, t)
		replica := refusing("a:1")
		for _, port := range []string{"1", "2", "3"} {
			replica.Message = "read tcp 127.0.0.1:" + port + "->127.0.0.1:443: connection reset, current time 2026-01-02T03:04:0" + port + "Z"
			known.set(replica)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if n := c.writes(); n != 1 {
			t.Errorf("the condition was written %d times", n)
		}
	})
}

func TestAnotherCauseIsWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, c *cluster) {
		known := c.addAggregator(ctx, t)
		replica := refusing("a:1")
		for _, cause := range []string{"connection refused", "certificate signed by unknown authority", "status 500", "status 503"} {
			replica.Message = cause
			known.set(replica)
			time.Sleep(contradictionDelay + time.Second)
			synctest.Wait()
			assert.Contains(t, c.condition(t).Message, cause)
		}
		// A cause that changes all the time is not written at full speed.
		before := c.writes()
		for i := range 300 {
			replica.Message = []string{"status 500", "status 503"}[i%2]
			known.set(replica)
			time.Sleep(200 * time.Millisecond)
		}
		synctest.Wait()
		assert.LessOrEqual(t, c.writes()-before, int(time.Minute/contradictionDelay)+1)
	})
}

func TestAggregatorsThatSeeOtherThingsContradictEachOtherSlowly(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, c *cluster) {
		one, other := c.addAggregator(ctx, t), c.addAggregator(ctx, t)
		one.set(well("a:1"))
		other.set(refusing("a:1"))
		time.Sleep(time.Minute)
		synctest.Wait()
		// Both write their conditions at once, and then each every ten seconds.
		if n := c.writes(); n < 4 || n > 2+2*int(time.Minute/contradictionDelay) {
			t.Errorf("the condition was written %d times in a minute", n)
		}
		other.set(well("a:1"))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.condition(t); got.Status != apiregistrationv1.ConditionTrue {
			t.Errorf("when they agree the condition is %v", got)
		}
	})
}

func TestAnAggregatorThatStartsDoesNotSayWhatItCannotKnow(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, c *cluster) {
		c.addAggregator(ctx, t).set(well("a:1"))
		time.Sleep(time.Second)
		c.addAggregator(ctx, t).set(unprobed("a:1"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := c.condition(t); got == nil || got.Status != apiregistrationv1.ConditionTrue || c.writes() != 1 {
			t.Errorf("condition is %v after %d writes", got, c.writes())
		}
	})
}

func TestAConflictIsAConditionForAsLongAsItLasts(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, c *cluster) {
		known := c.addAggregator(ctx, t)
		known.set(well("a:1"))
		require.Nil(t, c.conditionOf(t, Conflict))
		for _, step := range []struct {
			message string
			certain bool
			want    string
		}{
			{"a and b", true, "a and b"},
			{"", false, "a and b"},
			{"a and b and c", true, "a and b and c"},
			{"", true, ""},
			{"a and b", true, "a and b"},
		} {
			known.setConflict(step.message, step.certain)
			time.Sleep(time.Second)
			synctest.Wait()
			got := c.conditionOf(t, Conflict)
			if step.want == "" {
				assert.Nil(t, got)
				continue
			}
			require.NotNil(t, got, "condition after %q", step.message)
			assert.Equal(t, []string{"True", step.want}, []string{string(got.Status), got.Message})
			assert.Equal(t, apiregistrationv1.ConditionTrue, c.condition(t).Status, "Available")
		}
	})
}

func TestAnAggregatorThatHasNotHeardOfAConflictLeavesItsCondition(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, c *cluster) {
		c.addAggregator(ctx, t).setConflict("a and b", true)
		time.Sleep(time.Second)
		c.addAggregator(ctx, t).setConflict("", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotNil(t, c.conditionOf(t, Conflict))
		assert.Equal(t, 1, c.writes())
	})
}

// TestTheMetricHasAggregatedServersThatAreAway reads kube-aggregator's metric. The outage of a backend is in another one, once.
func TestTheMetricHasAggregatedServersThatAreAway(t *testing.T) {
	measured := availabilitymetrics.New()
	registry := metrics.NewKubeRegistry()
	require.NoError(t, measured.Register(registry.Register, registry.CustomRegister))
	a := &Availability{AvailabilityConfig: AvailabilityConfig{Metrics: measured}, names: routing.Backends{"core"}}
	away, certain := ofBackend("core", []upstream.Replica{refusing("a:1")})
	require.True(t, certain)
	for name, server := range map[string]*apiregistrationv1.ServiceReference{
		"v1.apps":        {Namespace: trust.Namespace, Name: "core"},
		"v1.example.com": {Namespace: "default", Name: "third"},
	} {
		a.setGauge(&apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiregistrationv1.APIServiceSpec{Service: server},
		}, away)
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP aggregator_unavailable_apiservice [ALPHA] Gauge of APIServices which are marked as unavailable broken down by APIService name.
# TYPE aggregator_unavailable_apiservice gauge
aggregator_unavailable_apiservice{name="v1.apps"} 0
aggregator_unavailable_apiservice{name="v1.example.com"} 1
`), "aggregator_unavailable_apiservice"))
}
