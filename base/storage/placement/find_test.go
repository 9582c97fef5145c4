// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tripod-k8s/tripod/base/storage/etcdtest"
)

// forgeries are what a user of the shared etcd only can write.
func forgeries() map[string]clientv3.Op {
	return map[string]clientv3.Op{
		"elsewhere":          keysOfTest.Put(Record{Move: "forged"}),
		"elsewhere, pending": keysOfTest.Put(Record{Move: "forged", Pending: true}),
		"by another move":    keysOfTest.Put(Record{Own: true, Move: "forged"}),
		"unreadable":         clientv3.OpPut(keysOfTest.Record, "{"),
		"deleted":            clientv3.OpDelete(keysOfTest.Fence, clientv3.WithPrefix()),
	}
}

// Users of other services reach the record of a group below a suffix in the shared etcd, and can write objects there.
func TestARecordInTheSharedEtcdAloneMovesNothing(t *testing.T) {
	t.Parallel()
	for name, forgery := range forgeries() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEtcds(t)
			running := e.storage(t, true)
			require.NoError(t, create(t, running, "a"))
			require.True(t, has(t, e.own))
			watching, err := running.Watch(t.Context(), directory, storage.ListOptions{
				ResourceVersion: list(t, running).GetResourceVersion(), Recursive: true, Predicate: storage.Everything,
			})
			require.NoError(t, err)
			defer watching.Stop()

			_, err = e.shared.Txn(t.Context()).Then(forgery, clientv3.OpPut("/registry/example.com/boats/forged", "{}")).Commit()
			require.NoError(t, err)
			starting := e.storage(t, true)
			requireUnavailable(t, create(t, starting, "forged"), "the API group example.com is unavailable")
			requireUnavailable(t, starting.GetList(t.Context(), directory, storage.ListOptions{}, &unstructured.UnstructuredList{}), "is unavailable")
			for n := range 50 {
				name := strconv.Itoa(n)
				require.NoError(t, create(t, running, name), "who has it goes on")
				event := <-watching.ResultChan()
				require.Equal(t, watch.Added, event.Type)
				require.Equal(t, name, event.Object.(*unstructured.Unstructured).GetName())
			}
			assert.Len(t, list(t, running).Items, 51)

			// The record is written again.
			state, err := keysOfTest.Read(t.Context(), e.own)
			require.NoError(t, err)
			put(t, e.shared, Record{Own: true, Move: state.Record.Move})
			require.Eventually(t, func() bool { return create(t, starting, "b") == nil }, waitTimeout, 10*time.Millisecond)
			assert.Len(t, list(t, starting).Items, 52)
			// And a move back is followed.
			put(t, e.own, Record{Move: state.Record.Move})
			put(t, e.shared, Record{Move: "back", Pending: true})
			for event := range watching.ResultChan() {
				assert.Equal(t, watch.Added, event.Type)
			}
		})
	}
}

// Between the switch of a move and its end, the shared etcd has the objects, too.
func TestAMoveWhoseSwitchIsUndoneLeavesOneEtcd(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	running := e.storage(t, true)
	_, err := e.shared.Put(t.Context(), "/registry/example.com/boats/copied", `{"metadata":{"name":"copied"}}`)
	require.NoError(t, err)
	put(t, e.own, Record{Own: true, Move: "first", Pending: true})
	require.NoError(t, create(t, running, "a"), "the move has not switched, as far as the etcds say")
	require.False(t, has(t, e.own))

	put(t, e.own, Record{Own: true, Move: "first"})
	for n, end := 0, time.Now().Add(waitTimeout); err == nil && time.Now().Before(end); n++ {
		err = create(t, running, fmt.Sprintf("b-%d", n))
	}
	requireUnavailable(t, err, "the API group example.com is unavailable")
	put(t, e.shared, Record{Own: true, Move: "first"})
	require.Eventually(t, func() bool { return create(t, running, "d") == nil }, waitTimeout, 10*time.Millisecond)
	require.True(t, has(t, e.own))
}

// The shared etcd may name an etcd of before, which has no newer objects.
func TestARecordInTheSharedEtcdAloneBringsNothingBack(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]*Record{
		"never there": nil, "left": {Move: "first", Left: true}, "died": {Own: true, Move: "unknown", Pending: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEtcds(t)
			if own != nil {
				put(t, e.own, *own)
			}
			_, err := e.own.Put(t.Context(), "/registry/example.com/boats/old", "{}")
			require.NoError(t, err)
			require.NoError(t, create(t, e.storage(t, false), "a"))
			put(t, e.shared, Record{Own: true, Move: "first"})
			requireUnavailable(t, create(t, e.storage(t, true), "b"), "the API group example.com is unavailable")
		})
	}
}

func TestAGroupIsNotFoundWithoutTheConsentOfItsEtcd(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]*Record{"without a record": nil, "with a record": {Move: "back"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEtcds(t)
			require.NoError(t, create(t, e.storage(t, false), "a"))
			if record != nil {
				put(t, e.shared, *record)
			}
			groups := e.groups(t, true)
			groups.Own = func(string) (storagebackend.Config, bool) {
				away := groups.Shared
				away.Transport.ServerList = []string{"http://127.0.0.1:1"}
				return away, true
			}
			requireUnavailable(t, create(t, e.storageOf(t, groups), "b"), "its etcd does not answer")
		})
	}
}

// A claim or a move may end at any write. Clients know the revision of the etcd that had the group, which others may have raised.
func TestAReplicaEndsWhatAClaimOrAMoveHasLeft(t *testing.T) {
	t.Parallel()
	for _, ahead := range []int{300, 1500} {
		t.Run(fmt.Sprintf("to its own etcd, %d behind", ahead), func(t *testing.T) {
			t.Parallel()
			e := startEtcds(t)
			put(t, e.own, Record{Own: true, Move: "died", Pending: true})
			write(t, e.shared, ahead)
			put(t, e.shared, Record{Own: true, Move: "died"})
			e.requireEnded(t, e.shared, e.own)
		})
		t.Run(fmt.Sprintf("to the shared etcd, %d behind", ahead), func(t *testing.T) {
			t.Parallel()
			e := startEtcds(t)
			write(t, e.own, ahead)
			put(t, e.own, Record{Move: "first"})
			put(t, e.shared, Record{Move: "died", Pending: true})
			requireUnavailable(t, create(t, e.storage(t, false), "a"), "a move of its objects has not ended")
			e.requireEnded(t, e.own, e.shared)
			state, err := keysOfTest.Read(t.Context(), e.own)
			require.NoError(t, err)
			assert.True(t, state.Record.Left)
		})
	}
}

// requireEnded fails the test unless no resourceVersion of the etcd that had the group is one of the etcd that has it.
func (e etcds) requireEnded(t *testing.T, from, to *clientv3.Client) {
	t.Helper()
	last, err := from.Get(t.Context(), keysOfTest.Record)
	require.NoError(t, err)
	s := e.storage(t, true)
	requireExpired(t, s, strconv.FormatInt(last.Header.GetRevision(), 10))
	require.NoError(t, create(t, s, "a"))
	assert.True(t, has(t, to))
	assert.Greater(t, versionOf(list(t, s).GetResourceVersion()), last.Header.GetRevision())
	state, err := keysOfTest.Read(t.Context(), to)
	require.NoError(t, err)
	assert.False(t, state.Record.Pending)
	assert.Greater(t, state.Record.Floor, last.Header.GetRevision())
	assert.LessOrEqual(t, state.Record.Floor, state.Revision)
}

// given is a storage that gives the events of a watch.
type given struct {
	storage.Interface
	events *watch.FakeWatcher
}

func (g given) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return g.events, nil
}

// vouchedEvents returns a watch of a group that is in the shared etcd.
func (e etcds) vouchedEvents(ctx context.Context, t *testing.T) (from *watch.FakeWatcher, to watch.Interface, at *place) {
	t.Helper()
	require.NoError(t, create(t, e.storage(t, false), "a"))
	group := e.groups(t, true).group(groupName)
	t.Cleanup(group.release)
	at, err := group.place(t.Context())
	require.NoError(t, err)
	from = watch.NewFakeWithChanSize(2*eventsAhead, false)
	to, err = vouching{given{events: from}, at}.Watch(ctx, "", storage.ListOptions{})
	require.NoError(t, err)
	return from, to, at
}

func eventAt(version int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetResourceVersion(strconv.FormatInt(version, 10))
	return object
}

// The version of a bookmark that an etcd has after a move may name another time in the next one.
func TestABookmarkOfAfterAMoveIsNotShown(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	from, to, at := e.vouchedEvents(t.Context(), t)
	now := at.here.Load()
	from.Action(watch.Bookmark, eventAt(now))
	assert.Equal(t, watch.Bookmark, (<-to.ResultChan()).Type)
	answer, err := e.shared.Do(t.Context(), keysOfTest.Put(Record{Own: true, Move: "first"}))
	require.NoError(t, err)
	from.Action(watch.Bookmark, eventAt(answer.Put().Header.GetRevision()+10))
	event, more := <-to.ResultChan()
	assert.False(t, more, "%v", event)
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	from, _, at := startEtcds(t).vouchedEvents(ctx, t)
	for range eventsAhead + 2 { // more than wait for a reader
		from.Action(watch.Added, eventAt(at.here.Load()))
	}
	cancel()
	require.Eventually(t, from.IsStopped, waitTimeout, time.Millisecond)
}

func BenchmarkGet(b *testing.B) {
	e := etcds{shared: etcdtest.Start(b)}
	p := &place{group: &group{keys: keysOfTest}}
	read := clientv3.OpGet("/registry/example.com/boats/a")
	for name, get := range map[string]func(context.Context) error{
		"plain": func(ctx context.Context) error {
			_, err := e.shared.Do(ctx, read)
			return err
		},
		"with the record": func(ctx context.Context) error {
			_, err := p.getHere(ctx, e.shared, read)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := get(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// broken has transactions fail as those do whose connection breaks.
type broken struct {
	clientv3.KV
	times int
}

func (b *broken) Txn(ctx context.Context) clientv3.Txn { return brokenTxn{b.KV.Txn(ctx), b} }

type brokenTxn struct {
	clientv3.Txn
	broken *broken
}

func (t brokenTxn) If(conditions ...clientv3.Cmp) clientv3.Txn {
	return brokenTxn{t.Txn.If(conditions...), t.broken}
}
func (t brokenTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	return brokenTxn{t.Txn.Then(ops...), t.broken}
}
func (t brokenTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	return brokenTxn{t.Txn.Else(ops...), t.broken}
}

func (t brokenTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.broken.times > 0 {
		t.broken.times--
		return nil, status.Error(codes.Unavailable, "read: connection reset by peer")
	}
	return t.Txn.Commit()
}

// The client of etcd repeats reads when a connection breaks. It does not repeat transactions, which reads are here.
func TestReadsGoOnWhenAConnectionBreaks(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	_, err := e.shared.Put(t.Context(), directory+"a", "stored")
	require.NoError(t, err)
	p := &place{group: &group{keys: keysOfTest}}
	p.here.Store(shut)
	answer, err := newFenced(&broken{e.shared, 3}, p).Get(t.Context(), directory+"a")
	require.NoError(t, err)
	require.Len(t, answer.Kvs, 1)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = newFenced(&broken{e.shared, 3}, p).Get(ctx, directory+"a")
	require.ErrorContains(t, err, "connection reset by peer", "it waits no longer than its caller")
}

// TestOnlyEtcdHasGroupsElsewhere has a server that is no etcd, as Check finds out of kine (test/suites/hosting). It gets no fences.
func TestOnlyEtcdHasGroupsElsewhere(t *testing.T) {
	e := startEtcds(t)
	groups := e.groups(t, true)
	groups.fixed = true
	require.ErrorContains(t, create(t, e.storageOf(t, groups), "dinghy"), "is not etcd, but a server such as kine")

	groups = e.groups(t, false)
	groups.fixed = true
	require.NoError(t, create(t, e.storageOf(t, groups), "dinghy"))
	_, err := e.shared.Put(t.Context(), keysOfTest.Pause, "")
	require.NoError(t, err)
	require.NoError(t, create(t, e.storageOf(t, groups), "yawl"), "a write looked at the fence")
}
