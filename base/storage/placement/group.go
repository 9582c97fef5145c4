// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

const (
	// findTimeout bounds how long a request waits until the etcd of its group is found. Requests within failurePeriod get the same error.
	findTimeout   = 5 * time.Second
	failurePeriod = time.Second
	retryInterval = time.Second
	// shut is the revision since which a fence is known if writes have to ask first.
	shut = -1
)

// Groups are the API groups of a process.
type Groups struct {
	// Clients are shared with other storages.
	Clients *etcdclient.Clients
	// Shared is the etcd that has CustomResourceDefinitions and all groups without an etcd of their own.
	Shared storagebackend.Config
	// Own returns the etcd of a group's own.
	Own func(group string) (storagebackend.Config, bool)
	// Name is the name of the service, such as extensions-big.
	Name string

	// fixed is set if the shared etcd is none: see [Groups.Check].
	fixed bool

	mu     sync.Mutex
	byName map[string]*group
	// farthest is another farthest, and waitTimeout another findTimeout, if not 0.
	farthest    int64
	waitTimeout time.Duration
}

// group is an API group.
type group struct {
	*Groups
	name string
	keys Keys
	own  *storagebackend.Config

	// users is how many storages use the group. The mutex of Groups guards it. context ends with the last.
	users   int
	context context.Context // the time in which the group is in use
	end     context.CancelFunc

	current atomic.Pointer[place]
	// finding is held while the group is looked for.
	finding sync.Mutex
	failed  error
	at      time.Time
}

// place is an etcd that has the objects of a group, until they move.
type place struct {
	group *group
	// etcd is where the objects are, and own whether that is not the shared one.
	etcd storagebackend.Config
	own  bool
	// record is that of the shared etcd, or its zero value if there is none. floor is the first resourceVersion of the place.
	record Record
	floor  int64
	// consent is the revision of the group's own etcd at which that had no objection to the shared one, or 0 if the replica has no such etcd.
	consent int64
	// known is the revision up to which the fence is known to be open, here that up to which etcd is known to have the objects, and
	// reached one that etcd has had.
	known, here, reached atomic.Int64
	// context ends when the objects have moved.
	context context.Context // the time in which the objects are there
	leave   context.CancelFunc
}

// group returns a group until its caller releases it.
func (g *Groups) group(name string) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	used, ok := g.byName[name]
	if !ok {
		used = g.newGroup(name)
		if g.byName == nil {
			g.byName = map[string]*group{}
		}
		g.byName[name] = used
	}
	used.users++
	return used
}

func (g *Groups) newGroup(name string) *group {
	made := &group{Groups: g, name: name, keys: KeysOf(g.Shared.Prefix, name)}
	made.context, made.end = context.WithCancel(context.Background())
	if own, ok := g.Own(name); ok {
		made.own = &own
	}
	return made
}

// release forgets the group, and what follows it, once nothing uses it.
func (g *group) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(g.byName, g.name)
		g.end()
	}
}

// place returns where the objects of the group are.
func (g *group) place(ctx context.Context) (*place, error) {
	if current := g.current.Load(); current != nil && current.context.Err() == nil {
		return current, nil
	}
	g.finding.Lock()
	defer g.finding.Unlock()
	if current := g.current.Load(); current != nil && current.context.Err() == nil {
		return current, nil
	}
	if g.context.Err() != nil {
		return nil, g.unavailable("the resource is being removed")
	}
	if g.failed != nil && time.Since(g.at) < failurePeriod {
		return nil, g.failed
	}
	// Others wait for the same, so it goes on if this client goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(g.waitTimeout, findTimeout))
	defer cancel()
	found, revision, err := g.find(ctx)
	if err != nil {
		g.failed, g.at = &unavailableError{g.unavailable(err.Error()), err}, time.Now()
		return nil, g.failed
	}
	g.current.Store(found)
	g.failed = nil
	if !g.fixed {
		go found.follow(revision) //nolint:gosec // it outlives the request
	}
	return found, nil
}

// isOpen reports whether the etcd of the place may be written, by its own state.
func (p *place) isOpen(s State) bool {
	record := s.record()
	return !s.Paused && !record.Switching && record.Service == "" && record.Own == p.own && record.Move == p.record.Move
}

// announce writes into the group's own etcd which service would use it.
func (g *group) announce() {
	ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
	defer cancel()
	client, err := g.Clients.Client(g.own)
	if err == nil {
		_, err = client.Txn(ctx).
			If(clientv3.Compare(clientv3.Value(g.keys.Reader), "=", g.Name)).
			Else(clientv3.OpPut(g.keys.Reader, g.Name)).Commit()
	}
	if err != nil {
		klog.InfoS("The etcd of an API group does not answer. The objects of the group are not there yet", "group", g.name, "reason", err.Error())
	}
}

// reopen returns nil if the fence is open again, though it has changed. kv is of the etcd of the place.
func (p *place) reopen(ctx context.Context, kv clientv3.KV) error {
	state, err := p.group.keys.Read(ctx, kv)
	if err != nil {
		return err
	}
	if p.left(state.Record) {
		p.leave()
	}
	if !p.isOpen(state) || p.context.Err() != nil {
		return p.group.moving()
	}
	raiseTo(&p.known, state.Revision)
	return nil
}

// raiseTo raises a number, unless it is as large.
func raiseTo(number *atomic.Int64, to int64) {
	for is := number.Load(); is < to; is = number.Load() {
		if number.CompareAndSwap(is, to) {
			return
		}
	}
}

// follow returns once the objects have moved, and has their new place found. The revision is that of the shared etcd.
func (p *place) follow(revision int64) {
	switch {
	case p.own:
		go func() {
			p.await(&p.etcd, p.here.Load(), func(_ context.Context, kvs []*mvccpb.KeyValue) (bool, error) {
				record, err := recordOf(kvs)
				return err != nil || p.left(record), nil //nolint:nilerr // it says nothing of the objects
			})
			p.leave()
		}()
	case p.consent > 0:
		// A move that has switched may lose the record in the shared etcd before it says in the own one that the objects are there.
		go func() {
			p.await(p.group.own, p.consent, func(_ context.Context, kvs []*mvccpb.KeyValue) (bool, error) {
				record, err := recordOf(kvs)
				return err == nil && State{Record: record}.IsHome(), nil
			})
			p.leave()
		}()
	}
	p.await(&p.group.Shared, revision, p.elsewhere)
	p.leave()
	if p.group.context.Err() == nil {
		p.group.place(context.Background()) //nolint:errcheck // the next request tries again
	}
}

// elsewhere reports whether the objects have moved, by the record of the shared etcd. If they are in an etcd of their own, that has the
// last word, and elsewhere returns an error if it does not answer.
func (p *place) elsewhere(ctx context.Context, kvs []*mvccpb.KeyValue) (bool, error) {
	record, err := recordOf(kvs)
	if !p.own {
		return err != nil || p.moved(record), nil
	}
	if err == nil && record != nil && record.Own && record.Move == p.record.Move {
		return false, nil
	}
	own, err := p.group.Clients.Client(&p.etcd)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	at, err := p.group.keys.Read(ctx, own)
	if err != nil {
		return false, err
	}
	if p.left(at.Record) || !at.IsHome() {
		return true, nil
	}
	klog.InfoS("The record of an API group in the shared etcd is gone, or says that the objects are elsewhere, but its own etcd has them. "+
		"It stays there, and replicas that start refuse it until tripod migrate groups writes the record again", "group", p.group.name)
	return false, nil
}

// ends reports whether the objects have moved, by a record. An error means that it is not known yet.
type ends func(ctx context.Context, record []*mvccpb.KeyValue) (bool, error)

// await returns once the record of an etcd says that the objects have moved, or they have, or the group is not used any more.
func (p *place) await(etcd *storagebackend.Config, revision int64, moved ends) {
	client, err := p.group.Clients.Client(etcd)
	if err != nil {
		return
	}
	for !p.watchRecord(client, revision, moved) {
		select {
		case <-time.After(retryInterval):
		case <-p.context.Done():
			return
		}
		ctx, cancel := context.WithTimeout(p.context, findTimeout)
		answer, err := client.Get(ctx, p.group.keys.Record)
		cancel()
		if err != nil {
			continue
		}
		over, err := moved(p.context, answer.Kvs)
		if over {
			return
		}
		if err == nil {
			revision = answer.Header.GetRevision()
		}
	}
}

func (p *place) moved(record *Record) bool {
	return State{Record: record}.record().inPlace() != p.record.inPlace()
}

// watchRecord watches a record. It returns true if the objects have moved by its next state, and false if they have not, or if the watch
// cannot go on. After each state, the caller makes a pause: other services can write the record as often as they like, and the client of
// etcd keeps all that a watch has not delivered.
func (p *place) watchRecord(etcd *clientv3.Client, revision int64, moved ends) bool {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(p.context))
	defer cancel()
	for answer := range etcd.Watch(ctx, p.group.keys.Record, clientv3.WithRev(revision+1)) {
		if answer.Err() != nil {
			return false
		}
		if len(answer.Events) == 0 {
			continue
		}
		var kvs []*mvccpb.KeyValue
		if last := answer.Events[len(answer.Events)-1]; last.Type == clientv3.EventTypePut { // each record says all, and none comes back
			kvs = append(kvs, last.Kv)
		}
		over, err := moved(ctx, kvs)
		if over = over && err == nil; over {
			klog.InfoS("The objects of an API group have moved", "group", p.group.name)
		}
		return over
	}
	return false
}

// moving is the answer to writes while objects move.
func (g *group) moving() error {
	return g.unavailable("its objects move, and cannot be written meanwhile")
}

func (g *group) unavailable(why string) *apierrors.StatusError {
	err := apierrors.NewServiceUnavailable(fmt.Sprintf("the API group %s is unavailable: %s", g.name, why))
	err.ErrStatus.Details = &metav1.StatusDetails{Group: g.name, RetryAfterSeconds: 1}
	return err
}
