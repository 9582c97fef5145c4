// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/shards"
)

func contextFor(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithCancel(context.Background())
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestAMemberIsCopiedAndFollowed(t *testing.T) {
	for name, streaming := range map[string]bool{"with a streaming list": true, "in pages": false} {
		t.Run(name, func(t *testing.T) {
			f, s := newFakeMember(t), newStore(t)
			f.streaming = streaming
			f.put("a", "b", "c", "d", "e")
			m, _ := run(t, f, s)
			eventually(t, s, "a", "b", "c", "d", "e")
			f.put("f")
			f.remove("b")
			eventually(t, s, "a", "c", "d", "e", "f")
			if streaming {
				assert.Equal(t, map[string]int{"initial": 1}, f.requests)
			} else {
				assert.Equal(t, map[string]int{"refused": 1, "list": 3, "watch": 1}, f.requests)
			}
			assert.Zero(t, m.client.(*rest.RESTClient).Client.Timeout, "a watch lasts longer than a question")
			health, status := m.Status()
			assert.Equal(t, Health{Version: "v1.30.0", Answered: true}, health)
			require.Len(t, status, 1, "Secrets are not copied by a wildcard")
			assert.Equal(t, Syncing, status[0].Phase)
			assert.False(t, status[0].Listing)

			found, err := s.Get(t.Context(), "east", configMaps, "default", "a")
			require.NoError(t, err)
			assert.JSONEq(t, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default", "uid": "uid-a", "resourceVersion": "1",
				"creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "a"}, "annotations": {"a": "b", "shadow.clusterpedia.io/cluster-name": "east", "shadow.clusterpedia.io/resource-version": "1"},
				"ownerReferences": [{"uid": "u1"}, {"uid": "u2"}]}, "data": {"x": "<y>"}}`, string(found.JSON))
		})
	}
}

func TestAfterARestartNothingIsListedAgain(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a", "b")
	_, stop := run(t, f, s)
	eventually(t, s, "a", "b")
	f.put("c")
	eventually(t, s, "a", "b", "c")
	stop()
	f.remove("a")
	f.put("d")
	run(t, f, s)
	eventually(t, s, "b", "c", "d")
	assert.Equal(t, map[string]int{"initial": 1, "watch": 1}, f.requests)
}

func TestAfterALongTimeTheMemberIsListedAgain(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a", "b")
	_, stop := run(t, f, s)
	eventually(t, s, "a", "b")
	stop()
	f.remove("a")
	f.put("c")
	f.do(func() { f.forgotten = len(f.events) })
	run(t, f, s)
	eventually(t, s, "b", "c")
	assert.Equal(t, 2, f.count("initial"))
}

func TestAMemberThatForbidsAResourceKeepsWhatIsKnown(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a")
	_, stop := run(t, f, s)
	eventually(t, s, "a")
	stop()
	f.do(func() { f.refuse = http.StatusForbidden })
	m, _ := run(t, f, s)
	require.Eventually(t, func() bool {
		_, status := m.Status()
		return len(status) == 1 && status[0].Phase == Failed && status[0].Reason == "Forbidden"
	}, time.Minute, 20*time.Millisecond)
	assert.Equal(t, []string{"a"}, names(t, s))
	f.do(func() { f.refuse = 0 })
	f.put("b")
	eventually(t, s, "a", "b")
}

func TestAMemberThatIsAwaySaysSo(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a")
	_, stop := run(t, f, s)
	eventually(t, s, "a")
	stop()
	f.do(func() { f.closed = true })
	f.CloseClientConnections()
	f.Close()
	m, _ := run(t, f, s)
	require.Eventually(t, func() bool {
		health, _ := m.Status()
		return health.Failure != nil
	}, time.Minute, 20*time.Millisecond)
	assert.Equal(t, []string{"a"}, names(t, s))
}

func TestAnotherReplicaTakesAStreamOver(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a")
	first, _ := run(t, f, s)
	eventually(t, s, "a")
	run(t, f, s)
	f.put("b")
	eventually(t, s, "a", "b")
	require.Eventually(t, func() bool {
		f.put("c")
		_, status := first.Status()
		return status[0].Phase == Stopped
	}, time.Minute, 20*time.Millisecond)
}

// TestReplicasShareStreams has two replicas copy a member, and the one that copies go away.
func TestReplicasShareStreams(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a")
	type replica struct {
		*Member
		stop func()
	}
	var replicas []replica
	for range 2 {
		work, err := shards.New(s, shards.Timing{Beat: 10 * time.Millisecond, FirstLook: time.Second, Dead: 5 * time.Second, Forget: time.Hour})
		require.NoError(t, err)
		ctx, cancel := contextFor(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			work.Run(ctx)
		}()
		m, stop := runAmong(t, f, s, work)
		leave := func() { stop(); cancel(); <-done }
		t.Cleanup(leave)
		replicas = append(replicas, replica{m, leave})
	}
	streams := func(of replica) int {
		_, all := of.Status()
		return len(all)
	}
	eventually(t, s, "a")
	require.Eventually(t, func() bool { return !replicas[0].shards.Alone() && !replicas[1].shards.Alone() }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return streams(replicas[0])+streams(replicas[1]) == 1 }, time.Minute, time.Millisecond)
	f.put("b")
	eventually(t, s, "a", "b")
	require.Eventually(t, func() bool {
		received, err := StreamStatuses(t.Context(), s, "east")
		return assert.NoError(t, err) && len(received) == 1 && received[0].Phase == Syncing && received[0].Kind.Resource == "configmaps"
	}, time.Minute, 10*time.Millisecond, "the state is known, whoever copies")
	lists := f.count("initial")

	copies, other := replicas[0], replicas[1]
	if streams(copies) == 0 {
		copies, other = other, copies
	}
	copies.stop()
	f.put("c")
	eventually(t, s, "a", "b", "c")
	assert.Equal(t, 1, streams(other))
	assert.Equal(t, lists, f.count("initial"), "the other one goes on where the first one was")
}

func TestAResourceThatIsGoneIsRemoved(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a")
	m, stop := run(t, f, s)
	eventually(t, s, "a")
	m.adjust(t.Context(), nil, []string{""})
	assert.Equal(t, []string{"a"}, names(t, s), "its group could not be asked")
	m.adjust(t.Context(), nil, nil)
	assert.Empty(t, names(t, s))
	stop()

	run(t, f, s)
	eventually(t, s, "a")
	f.do(func() { f.resources = nil })
	run(t, f, s) // from the time before the process
	eventually(t, s)
}

func TestWhatIsCopied(t *testing.T) {
	resource := func(name string, verbs ...string) metav1.APIResource {
		return metav1.APIResource{Name: name, Kind: "Thing", Verbs: verbs}
	}
	both := []string{"list", "watch"}
	groups := []*metav1.APIGroup{
		{Name: "", Versions: []metav1.GroupVersionForDiscovery{{Version: "v1"}}},
		{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{{Version: "v2"}, {Version: "v1"}}},
		{Name: "coordination.k8s.io", Versions: []metav1.GroupVersionForDiscovery{{Version: "v1"}}},
		{Name: "cluster.clusterpedia.io", Versions: []metav1.GroupVersionForDiscovery{{Version: "v1alpha2"}}},
		{Name: "metrics.k8s.io", Versions: []metav1.GroupVersionForDiscovery{{Version: "v1"}, {Version: "v1beta1"}}},
	}
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{resource("pods", both...), resource("pods/log", both...), resource("secrets", both...), resource("events", both...), resource("bindings", "create")}},
		{GroupVersion: "example.com/v2", APIResources: []metav1.APIResource{resource("boats", both...)}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{resource("boats", both...), resource("ships", both...), resource("secrets", both...)}},
		{GroupVersion: "coordination.k8s.io/v1", APIResources: []metav1.APIResource{resource("leases", both...)}},
		{GroupVersion: "cluster.clusterpedia.io/v1alpha2", APIResources: []metav1.APIResource{resource("pediaclusters", both...)}},
		{GroupVersion: "metrics.k8s.io/v1", APIResources: []metav1.APIResource{resource("pods", "get", "list"), resource("nodes", "list")}},
		{GroupVersion: "metrics.k8s.io/v1beta1", APIResources: []metav1.APIResource{resource("pods", "get", "list"), resource("nodes", both...)}},
	}
	for name, test := range map[string]struct {
		rules []Rule
		want  []string
	}{
		"everything":    {Everything, []string{"pods.v1.", "boats.v2.example.com", "ships.v1.example.com", "secrets.v1.example.com", "nodes.v1beta1.metrics.k8s.io"}},
		"what is named": {[]Rule{{Resources: []string{"secrets", "events", "nothing"}}}, []string{"secrets.v1.", "events.v1."}},
		"credentials of search, though they are named": {[]Rule{{Group: "cluster.clusterpedia.io", Resources: []string{"pediaclusters"}}}, nil},
		"a name in all groups":                         {[]Rule{{Group: "*", Resources: []string{"secrets"}}}, []string{"secrets.v1.example.com"}},
		"all of a group":                               {[]Rule{{Group: "example.com", Resources: []string{"*"}}}, []string{"boats.v2.example.com", "ships.v1.example.com", "secrets.v1.example.com"}},
		"versions":                                     {[]Rule{{Group: "example.com", Versions: []string{"v1", "v2"}, Resources: []string{"boats"}}}, []string{"boats.v2.example.com", "boats.v1.example.com"}},
		"another version":                              {[]Rule{{Group: "example.com", Versions: []string{"v1"}, Resources: []string{"boats"}}}, []string{"boats.v1.example.com"}},
		"custom resources":                             {[]Rule{{Group: "*", Resources: []string{"*"}, Custom: true}}, []string{"boats.v2.example.com", "ships.v1.example.com", "secrets.v1.example.com", "nodes.v1beta1.metrics.k8s.io"}},
		"two rules for one resource":                   {[]Rule{{Resources: []string{"pods"}}, {Group: "*", Resources: []string{"pods"}}}, []string{"pods.v1."}},
		"what can only be listed, if it is named":      {[]Rule{{Group: "metrics.k8s.io", Resources: []string{"pods", "nodes"}}}, []string{"pods.v1.metrics.k8s.io", "nodes.v1.metrics.k8s.io"}},
		"not what can only be listed, by a wildcard":   {[]Rule{{Group: "metrics.k8s.io", Resources: []string{"*"}}}, []string{"nodes.v1beta1.metrics.k8s.io"}},
		"nothing": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, kind := range selectKinds("east", groups, lists, test.rules) {
				got = append(got, kind.Resource+"."+kind.Version+"."+kind.Group)
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestAReplicaTakesBackWhatNobodyCopiesAnyMore(t *testing.T) {
	f, s := newFakeMember(t), newStore(t)
	f.put("a")
	m, _ := run(t, f, s)
	eventually(t, s, "a")
	m.mu.Lock()
	stream := m.streams[configMaps].stream
	m.mu.Unlock()
	other, err := s.OpenStream(t.Context(), "east", stream.kind)
	require.NoError(t, err)
	assert.False(t, expiredStream(t, stream, time.Hour), "the other replica was just heard")
	assert.True(t, expiredStream(t, stream, time.Millisecond))
	require.NoError(t, s.CloseStream(t.Context(), other))
	assert.False(t, expiredStream(t, stream, time.Millisecond), "the stream is gone")
}

// expiredStream reports whether a stream would be taken over after a time.
func expiredStream(t *testing.T, of *stream, after time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	s := newStream(of.cluster, of.kind, of.source, of.store)
	s.target, s.abandonedAfter = of.target, after
	return s.awaitAbandoned(ctx)
}

// TestAMemberThatEndsLeavesNoConnections holds that one which begins anew again and again has no more connections than one that runs.
func TestAMemberThatEndsLeavesNoConnections(t *testing.T) {
	f := newFakeMember(t)
	f.put("a")
	var opened, ended atomic.Int64
	server := httptest.NewUnstartedServer(f)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			ended.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	s := newStore(t)
	m, err := New("east", &rest.Config{Host: server.URL}, Everything, Dependencies{Store: s, Limiter: newLimiter(t, nil)})
	require.NoError(t, err)
	ctx, cancel := contextFor(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	eventually(t, s, "a")
	cancel()
	f.do(func() { f.closed = true }) // it notices no other end
	<-done
	require.Eventually(t, func() bool { return opened.Load() > 0 && opened.Load() == ended.Load() }, time.Minute, 10*time.Millisecond)
}
