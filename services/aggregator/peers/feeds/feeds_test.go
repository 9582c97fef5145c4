// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

const (
	serving  = backendv1.WatchResponse_PHASE_SERVING
	draining = backendv1.WatchResponse_PHASE_DRAINING
)

// backend is a backend whose replicas the test controls.
type backend struct {
	// last is true if no other replica is better.
	last       bool
	mu         sync.Mutex
	replicas   map[string]*process
	subscriber func()
	draining   map[string]bool
	serves     map[string]bool
	held       map[string]bool
	probed     []string
	partly     map[schema.GroupVersion][]string
	// hidden is true while the addresses of feeds are unknown.
	hidden bool
}

func (b *backend) Name() string { return "extensions" }

// locate returns the feed of every replica, unless hidden is set.
func (b *backend) locate(address string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return address, !b.hidden
}

func (b *backend) hide(hidden bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hidden = hidden
}

func (b *backend) Addresses() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var addresses []string
	for address := range b.replicas {
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	return addresses
}

func (b *backend) Subscribe(notify func()) { b.subscriber = notify }

func (b *backend) SetDraining(address string, draining bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draining[address] = draining
}

func (b *backend) SetHeldBack(address string, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = map[string]bool{}
	}
	b.held[address] = held
}

func (b *backend) heldBack() (addresses []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for address, held := range b.held {
		if held {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return addresses
}

func (b *backend) SetPartlyServed(having map[schema.GroupVersion][]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.partly = having
}

// partlyServed returns the group-versions that some replicas lack, by group, and where they are.
func (b *backend) partlyServed() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := map[string][]string{}
	for gv, addresses := range b.partly {
		at[gv.Group] = slices.Sorted(slices.Values(addresses))
	}
	return fmt.Sprint(at)
}

func (b *backend) Spare(string) bool { return !b.last }

func (b *backend) SetServing(address string, serves bool, _ time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serves[address] = serves
}

func (b *backend) ProbeNow(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probed = append(b.probed, address)
}

func (b *backend) set(addresses ...string) {
	b.mu.Lock()
	before := b.replicas
	b.replicas = map[string]*process{}
	for _, address := range addresses {
		if b.replicas[address] = before[address]; before[address] == nil {
			b.replicas[address] = &process{}
		}
	}
	b.mu.Unlock()
	if b.subscriber != nil {
		b.subscriber()
	}
}

// process is one replica. It sends what the test sets to all its watchers.
type process struct {
	mu      sync.Mutex
	streams []*stream
	down    bool
}

func (p *process) say(m *backendv1.WatchResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		s.messages <- m
	}
}

// die ends all streams. If down is set, it also rejects new ones.
func (p *process) die(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		close(s.messages)
	}
	p.streams, p.down = nil, down
}

// Invoke and NewStream make a process its own gRPC connection.
func (p *process) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errors.New("there is nothing to invoke")
}

func (p *process) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return nil, errors.New("connection refused")
	}
	s := &stream{ctx: ctx, messages: make(chan *backendv1.WatchResponse, 100)}
	p.streams = append(p.streams, s)
	return s, nil
}

func (p *process) Close() error { return nil }

type stream struct {
	ctx      context.Context
	messages chan *backendv1.WatchResponse
}

func (s *stream) Header() (metadata.MD, error) { return nil, nil }
func (s *stream) Trailer() metadata.MD         { return nil }
func (s *stream) CloseSend() error             { return nil }
func (s *stream) Context() context.Context     { return s.ctx }
func (s *stream) SendMsg(any) error            { return nil }

func (s *stream) RecvMsg(into any) error {
	select {
	case m, ok := <-s.messages:
		if !ok {
			return errors.New("connection reset")
		}
		message := into.(*backendv1.WatchResponse)
		message.Run, message.Phase, message.Catalog, message.Established = m.GetRun(), m.GetPhase(), m.GetCatalog(), m.GetEstablished()
		message.Settings = m.GetSettings()
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func catalog(digest string, groups ...string) *backendv1.Catalog {
	c := &backendv1.Catalog{DiscoveryDigest: digest, OpenapiDigest: digest}
	for _, group := range groups {
		c.GroupVersions = append(c.GroupVersions, &backendv1.GroupVersion{Group: group, Version: "v1"})
	}
	return c
}

// recorder records what a follower reports.
type recorder struct {
	served    []string
	documents int
	// lasting are the declarations of long-running subresources.
	lasting []string
}

// followReplicas follows a backend with replicas at these addresses until the test ends.
func followReplicas(t *testing.T, addresses ...string) (*backend, *Follower, *recorder) {
	t.Helper()
	b := &backend{draining: map[string]bool{}, serves: map[string]bool{}}
	b.set(addresses...)
	h := &recorder{}
	f := New(Config{
		Backend:       b,
		Settings:      ownSettings,
		Versions:      NewVersions(ownSettings),
		FirstReplicas: NewFirstReplicas(),
		Locate:        b.locate,
		Dial: func(address string) (follow.Conn, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.replicas[address], nil
		},
		OnServed: func(served []schema.GroupVersion) {
			var groups []string
			for _, gv := range served {
				groups = append(groups, gv.Group)
			}
			h.served = append(h.served, strings.Join(groups, " "))
		},
		OnLongRunning: func(subresources map[schema.GroupVersionResource]bool) {
			var names []string
			for gvr := range subresources {
				names = append(names, gvr.Group+" "+gvr.Resource)
			}
			slices.Sort(names)
			h.lasting = append(h.lasting, strings.Join(names, ", "))
		},
		OnDocuments: func() { h.documents++ },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { f.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return b, f, h
}

func TestWhatIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, h := followReplicas(t, "a", "b")
		expect := func(documents int, served ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(h.served, served) || h.documents != documents {
				t.Errorf("received %q and %d changes of documents, want %q and %d", h.served, h.documents, served, documents)
			}
		}
		beats := func(seconds int, who ...string) {
			for range seconds {
				for _, address := range who {
					b.replicas[address].say(&backendv1.WatchResponse{Phase: serving})
				}
				time.Sleep(time.Second)
			}
		}
		a := b.replicas["a"]
		a.say(&backendv1.WatchResponse{Phase: serving})
		expect(0) // its replica has not reported all yet
		a.say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("1", "x")})
		expect(1, "x")
		b.replicas["b"].say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("1", "x")})
		expect(2, "x") // the documents of the new replica may differ from those fetched before
		a.say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("2", "x", "y")})
		expect(3, "x", "x y")
		// b reports y a moment later. Then both lose x.
		b.replicas["b"].say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("2", "x", "y")})
		a.say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("3", "y")})
		expect(5, "x", "x y")
		b.replicas["b"].say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("3", "y")})
		expect(6, "x", "x y", "y")

		// a is lost while it serves something that b does not have yet. It stays for a while.
		a.say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("4", "y", "z")})
		synctest.Wait()
		a.die(true)
		beats(20, "b")
		expect(7, "x", "x y", "y", "y z")
		beats(20, "b")
		expect(7, "x", "x y", "y", "y z", "y")

		// Both are lost. Everything stays, however long.
		b.replicas["b"].die(true)
		time.Sleep(time.Hour)
		expect(7, "x", "x y", "y", "y z", "y")
	})
}

func TestWhatARolloutAddsIsShownAndAskedForWhereItIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const starting = backendv1.WatchResponse_PHASE_NOT_READY
		b, _, h := followReplicas(t, "old", "new")
		step := func(address string, phase backendv1.WatchResponse_Phase, served, partly string, groups ...string) {
			t.Helper()
			message := &backendv1.WatchResponse{Phase: phase}
			if len(groups) > 0 {
				message.Catalog = catalog(fmt.Sprint(groups), groups...)
			}
			b.replicas[address].say(message)
			synctest.Wait()
			assert.Equal(t, served, h.served[len(h.served)-1], "what clients find")
			assert.Equal(t, "map["+partly+"]", b.partlyServed())
		}
		step("old", starting, "x", "", "x") // no replica serves, so what is known of them counts
		step("old", serving, "x", "")
		step("new", starting, "x", "", "x", "y")
		step("new", serving, "x y", "y:[new]")
		step("new", draining, "x y", "y:[new]")
		step("new", starting, "x y", "y:[new]") // clients know y, and the other replica would say that it does not exist
		step("new", serving, "x y", "y:[new]")
		step("old", serving, "x y z", "y:[new] z:[old]", "x", "z")
		step("old", serving, "x y", "", "x", "y")
		step("old", serving, "x y", "y:[new]", "x")

		hold := func(emulated, served, partly string) {
			t.Helper()
			b.replicas["new"].say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog(emulated, "x", "y", "later"),
				Settings: &backendv1.Settings{BinaryVersion: "1.37.2", EmulationVersion: emulated}})
			synctest.Wait()
			assert.Equal(t, served, h.served[len(h.served)-1])
			assert.Equal(t, "map["+partly+"]", b.partlyServed())
		}
		hold("1.37", "x y", "") // it is held back, because this aggregator is older
		hold("1.36", "later x y", "later:[new] y:[new]")

		// The definition of z is deleted while a replica is silent: 404 of the other one is right.
		step("old", serving, "later x y z", "later:[new] y:[new] z:[old]", "x", "z")
		b.replicas["new"].say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("z", "x", "y", "later", "z")})
		synctest.Wait()
		assert.Equal(t, "map[later:[new] y:[new]]", b.partlyServed())
		time.Sleep(time.Millisecond) // later than the drop of y
		b.replicas["new"].die(true)
		synctest.Wait()
		step("old", serving, "later x y", "later:[new] y:[new]", "x")

		assert.Equal(t, "map[later:[new] y:[new]]", b.partlyServed(), "it may come back")
		assert.Equal(t, "later x y", h.served[len(h.served)-1])
		for range int(catalogLifetime / time.Second) {
			b.replicas["old"].say(&backendv1.WatchResponse{Phase: serving})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		assert.Equal(t, "map[]", b.partlyServed())
		assert.Equal(t, "x", h.served[len(h.served)-1])
		b.replicas["old"].die(true)
		synctest.Wait()
		assert.Equal(t, "map[]", b.partlyServed())
	})
}

func TestWhatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, h := followReplicas(t, "old", "new")
		say := func(address, digest string, names ...string) {
			of := catalog(digest, "x")
			of.GroupVersions[0].LongRunning = names
			b.replicas[address].say(&backendv1.WatchResponse{Phase: serving, Catalog: of})
			synctest.Wait()
		}
		say("old", "1") // it does not know the field
		assert.Equal(t, []string{""}, h.lasting)
		say("new", "2", "books/tail", "books", "", "/", "books/", "/tail", "books/tail/more", "*/tail")
		assert.Equal(t, []string{"", "x */tail, x books/tail"}, h.lasting)
		assert.Equal(t, []string{"x"}, h.served, "nothing else is served")
		say("old", "1")
		assert.Len(t, h.lasting, 2, "an old replica takes nothing away")
		say("new", "3", "books/tail")
		assert.Equal(t, "x books/tail", h.lasting[2])
		b.replicas["new"].die(true)
		synctest.Wait()
		assert.Len(t, h.lasting, 3, "a replica that is lost may come back")
		b.set("old")
		synctest.Wait()
		assert.Equal(t, []string{"", "x */tail, x books/tail", "x books/tail", ""}, h.lasting)
	})
}

func TestAReplicaThatDrainsOrIsLostIsKnownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, _ := followReplicas(t, "a")
		a := b.replicas["a"]
		a.say(&backendv1.WatchResponse{Phase: serving})
		synctest.Wait()
		assert.False(t, b.draining["a"], "it is taken to drain")
		assert.True(t, b.serves["a"], "no feed reports that it serves")
		a.say(&backendv1.WatchResponse{Phase: draining})
		synctest.Wait()
		assert.True(t, b.draining["a"], "it is not known that it drains")
		assert.False(t, b.serves["a"], "it is taken to serve")
		a.die(false)
		synctest.Wait()
		if b.draining["a"] || !slices.Equal(b.probed, []string{"a"}) {
			t.Errorf("after its end: draining %v, probed %q", b.draining["a"], b.probed)
		}
		// It comes back, sends one message, and hangs.
		time.Sleep(2 * time.Second)
		a.say(&backendv1.WatchResponse{Phase: draining})
		synctest.Wait()
		assert.True(t, b.draining["a"], "it is not followed again")
		time.Sleep(silence + time.Millisecond)
		synctest.Wait()
		if b.draining["a"] || len(b.probed) != 2 {
			t.Errorf("after its silence: draining %v, probed %q", b.draining["a"], b.probed)
		}
	})
}

// TestTheLastReplicaIsFollowedHoweverSilent has a replica that is only busy, for all that is known.
func TestTheLastReplicaIsFollowedHoweverSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, h := followReplicas(t)
		b.last = true
		b.set("a")
		synctest.Wait()
		a := b.replicas["a"]
		a.say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("1", "x")})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, b.probed, "its feed is not lost")
		a.say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("2", "y")})
		synctest.Wait()
		assert.Equal(t, []string{"x", "y"}, h.served, "the feed goes on")
	})
}

func TestReplicasComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, h := followReplicas(t)
		b.set("a")
		synctest.Wait()
		a := b.replicas["a"]
		a.say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("1", "x")})
		synctest.Wait()
		assert.Equal(t, []string{"x"}, h.served, "received")
		b.set()
		synctest.Wait()
		for _, s := range a.streams {
			if s.ctx.Err() == nil {
				t.Error("a removed replica is still followed")
			}
		}
		assert.Len(t, h.served, 1, "without replicas")
	})
}

func TestAFeedIsFollowedOnceItIsKnownWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, h := followReplicas(t)
		b.hide(true)
		b.set("a")
		time.Sleep(time.Minute)
		if n := len(b.replicas["a"].streams); n != 0 {
			t.Fatalf("%d streams are open", n)
		}
		b.hide(false)
		time.Sleep(time.Second)
		b.replicas["a"].say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("1", "x")})
		synctest.Wait()
		assert.Equal(t, []string{"x"}, h.served, "received")
	})
}

func TestAnAggregatorThatStopsTakesNothingAway(t *testing.T) {
	var h *recorder
	synctest.Test(t, func(t *testing.T) {
		var b *backend
		b, _, h = followReplicas(t, "a", "b")
		b.replicas["a"].say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("1", "x")})
		b.replicas["b"].say(&backendv1.WatchResponse{Phase: serving, Catalog: catalog("2", "x", "y")})
		synctest.Wait()
	})
	// The replica has stopped with the bubble.
	assert.Equal(t, "x y", h.served[len(h.served)-1], "the last that it reported was served")
}

func TestWhoHadACustomResourceFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f, _ := followReplicas(t, "a", "b")
		foos := schema.GroupResource{Group: "x", Resource: "foos"}
		say := func(address, uid string) {
			b.replicas[address].say(&backendv1.WatchResponse{Phase: serving, Established: []*backendv1.Established{{Group: "x", Resource: "foos", Uid: uid}}})
			synctest.Wait()
		}
		expect := func(want string) {
			t.Helper()
			if got, ok := f.config.FirstReplicas.Of(foos); got != want || ok != (want != "") {
				t.Errorf("%q had it first, want %q", got, want)
			}
		}
		expect("")
		say("b", "1")
		say("a", "1")
		expect("b")
		// The resource is deleted and created again.
		say("a", "2")
		say("b", "2")
		expect("a")
		time.Sleep(freshFor + time.Second)
		expect("")
	})
}

func TestLocator(t *testing.T) {
	locate, err := Locator([]string{"https://a:1", "dns:///cores:6443", "https://b"}, []string{"a:2", "dns:///cores:8443", "b:3"})
	require.NoError(t, err)
	for address, want := range map[string]string{"a:1": "a:2", "b:443": "b:3", "10.0.0.1:6443": "10.0.0.1:8443", "[::1]:6443": "[::1]:8443", "c:9": "", "c": ""} {
		if got, ok := locate(address); ok != (want != "") || ok && got != want {
			t.Errorf("%s is at %q, want %q", address, got, want)
		}
	}
	if nowhere, err := Locator([]string{"https://a:1"}, nil); err != nil {
		t.Error(err)
	} else if _, ok := nowhere("a:1"); ok {
		t.Error("it is somewhere without addresses")
	}
	for _, lists := range [][2][]string{
		{{"https://a:1", "https://b:1"}, {"a:2"}}, {{"https://a:1"}, {"dns:///a:2"}}, {{"dns:///a:1"}, {"a:2"}}, {{"https://a:1"}, {"a"}},
	} {
		if _, err := Locator(lists[0], lists[1]); err == nil {
			t.Errorf("%q go with %q", lists[0], lists[1])
		}
	}
}

func TestACatalogThatNoHonestReplicaSendsIsRefused(t *testing.T) {
	long := strings.Repeat("a", 300)
	many := make([]*backendv1.GroupVersion, maxGroupVersions+1)
	for i := range many {
		many[i] = &backendv1.GroupVersion{Group: "a.example.com", Version: fmt.Sprint("v", i)}
	}
	for name, test := range map[string]struct {
		served []*backendv1.GroupVersion
		wrong  string
	}{
		"some":                {served: []*backendv1.GroupVersion{{Group: "a.example.com", Version: "v1"}, {Version: "v1"}}},
		"many":                {served: many, wrong: "claims 10001 group-versions"},
		"a group that long":   {served: []*backendv1.GroupVersion{{Group: long, Version: "v1"}}, wrong: "names of 300 and 2 characters"},
		"a version that long": {served: []*backendv1.GroupVersion{{Group: "a.example.com", Version: long}}, wrong: "names of 13 and 300 characters"},
		"many subresources": {
			served: []*backendv1.GroupVersion{{Group: "a.example.com", Version: "v1", LongRunning: make([]string, maxLongRunning+1)}},
			wrong:  "claims 1001 long-running subresources",
		},
		"a subresource that long": {
			served: []*backendv1.GroupVersion{{Group: "a.example.com", Version: "v1", LongRunning: []string{"a/b", long + "/" + long}}},
			wrong:  "a name of 601 characters",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := refuse(&backendv1.Catalog{GroupVersions: test.served}); test.wrong == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.wrong)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b, _, h := followReplicas(t, "liar", "honest")
		b.replicas["liar"].say(&backendv1.WatchResponse{Run: "1", Catalog: catalog("x", long)})
		b.replicas["honest"].say(&backendv1.WatchResponse{Run: "2", Catalog: catalog("y", "a.example.com")})
		synctest.Wait()
		require.Equal(t, []string{"a.example.com"}, h.served)
	})
}
