// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

// After a move, `tripod migrate groups --delete-source` deletes the objects where they were. A replica that has not received the move,
// because it was frozen or cut off from the shared etcd, must not take that for deletions. The record is in the same etcd as the objects,
// and first writes a record that they have left. So a replica looks at the record, after it has read and before it reports that an object
// is gone.

// left reports whether the objects have left, by the record in the etcd of the place.
func (p *place) left(record *Record) bool {
	if !p.own {
		return p.moved(record)
	}
	return record == nil || record.Move != p.record.Move || record.Left
}

// judge returns an error if the objects have left, by what etcd had at a revision.
func (p *place) judge(kvs []*mvccpb.KeyValue, revision int64) error {
	record, err := recordOf(kvs)
	if err != nil {
		return err
	}
	if p.left(record) {
		p.leave()
		return p.group.unavailable("its objects have moved to another etcd")
	}
	raiseTo(&p.here, revision)
	return nil
}

// recordOf returns nil if there is none.
func recordOf(kvs []*mvccpb.KeyValue) (*Record, error) {
	if len(kvs) == 0 {
		return nil, nil // no record
	}
	record := &Record{}
	if err := json.Unmarshal(kvs[0].Value, record); err != nil {
		return nil, fmt.Errorf("cannot read %s in etcd: %w", kvs[0].Key, err)
	}
	return record, nil
}

// The client of etcd repeats a read for so long, but no transaction, also if that only reads.
const (
	readAttempts = 100
	readPause    = 25 * time.Millisecond
)

// getHere reads from etcd, if it still has the objects.
func (p *place) getHere(ctx context.Context, kv clientv3.KV, read clientv3.Op) (*clientv3.GetResponse, error) {
	for attempt := 1; ; attempt++ {
		answer, err := kv.Txn(ctx).If(p.group.keys.RecordUnchanged(p.here.Load())).
			Then(read).Else(clientv3.OpGet(p.group.keys.Record)).Commit()
		if isUnavailable(err) && attempt < readAttempts {
			select {
			case <-time.After(readPause):
				continue
			case <-ctx.Done():
			}
		}
		if err != nil {
			return nil, err
		}
		found := answer.Responses[0].GetResponseRange()
		if answer.Succeeded {
			raiseTo(&p.here, answer.Header.GetRevision())
			found.Header = answer.Header
			return (*clientv3.GetResponse)(found), nil
		}
		if err := p.judge(found.GetKvs(), answer.Header.GetRevision()); err != nil {
			return nil, err
		}
	}
}

// isUnavailable reports whether a connection has broken, or etcd is away.
func isUnavailable(err error) bool {
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		return etcd.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}

// vouch returns an error unless the etcd of the place still had the objects at a revision.
func (p *place) vouch(ctx context.Context, revision int64) error {
	if revision <= p.here.Load() {
		return nil
	}
	client, err := p.group.Clients.Client(&p.etcd)
	if err != nil {
		return err
	}
	return p.within(ctx, func(ctx context.Context) error {
		answer, err := client.Get(ctx, p.group.keys.Record)
		if err != nil {
			return err
		}
		return p.judge(answer.Kvs, answer.Header.GetRevision())
	})
}

// vouched returns raw, of which lists and watches do not show what a move has deleted.
func (p *place) vouched(raw etcdclient.NewRawStorage) etcdclient.NewRawStorage {
	return func(
		config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string,
	) (storage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := raw(config, newFunc, newListFunc, resourcePrefix)
		if err != nil {
			return nil, nil, err
		}
		return vouching{made, p}, destroy, nil
	}
}

// vouching is a storage whose lists and watches do not show what a move has deleted.
type vouching struct {
	storage.Interface
	place *place
}

// GetList implements storage.Interface.
func (v vouching) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if err := v.Interface.GetList(ctx, key, opts, list); err != nil {
		return err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	return v.place.vouch(ctx, versionOf(accessor.GetResourceVersion()))
}

// Watch implements storage.Interface.
func (v vouching) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	from, err := v.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	w := &vouchedWatch{from: from, place: v.place, events: make(chan watch.Event, eventsAhead), stopped: make(chan struct{})}
	w.stop = sync.OnceFunc(func() {
		close(w.stopped)
		from.Stop()
	})
	go w.run(ctx)
	return w, nil
}

// eventsAhead is how many events wait for the reader of a watch, as in the storage of k8s.io/apiserver.
const eventsAhead = 100

type vouchedWatch struct {
	from    watch.Interface
	place   *place
	events  chan watch.Event
	stopped chan struct{}
	stop    func()
}

// Stop implements watch.Interface.
func (w *vouchedWatch) Stop() { w.stop() }

// ResultChan implements watch.Interface.
func (w *vouchedWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *vouchedWatch) run(ctx context.Context) {
	defer close(w.events)
	defer w.stop()
	for event := range w.from.ResultChan() {
		if version, progress := w.place.claims(event); version > 0 && w.place.vouch(ctx, version) != nil {
			if progress && w.place.context.Err() == nil {
				continue // the next one says as much
			}
			return
		}
		select {
		case w.events <- event:
		case <-w.stopped:
			return
		case <-ctx.Done():
			return
		}
	}
}

// claims returns the resourceVersion of an event if etcd must have had the objects then, or 0. Such events report objects that are gone.
// The end of the initial events reports those that were not among them. If the group may move, a bookmark without objects is one, too,
// because its version must not be beyond the floor of the next place. Then progress is true.
func (p *place) claims(event watch.Event) (version int64, progress bool) {
	object := event.Object
	if wrapped, ok := object.(interface{ Unwrap() runtime.Object }); ok {
		object = wrapped.Unwrap()
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return 0, false
	}
	initial := accessor.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
	progress = event.Type == watch.Bookmark && !initial
	if event.Type == watch.Deleted || event.Type == watch.Bookmark && initial || progress && p.mayMove() {
		return versionOf(accessor.GetResourceVersion()), progress
	}
	return 0, false
}

// mayMove reports whether the group has an etcd of its own, or ever had one. To ask about each bookmark of any group would cost more.
func (p *place) mayMove() bool { return p.group.own != nil || p.record != (Record{}) }
