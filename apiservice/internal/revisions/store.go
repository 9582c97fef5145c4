// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/base/broadcast"
)

// Options bound a store. Zero values take the defaults.
type Options struct {
	// MaxBytes bounds the encoded objects: 256 MiB by default.
	MaxBytes int64
	// HistoryChanges and HistoryBytes bound the changes that are kept: 10,000 and 64 MiB by default.
	HistoryChanges int
	HistoryBytes   int64
}

const (
	defaultMaxBytes       = 256 << 20
	defaultHistoryChanges = 10_000
	defaultHistoryBytes   = 64 << 20
	treeDegree            = 32
)

// entry is an object in one revision. It never changes.
type entry struct {
	key      string
	revision int64
	// data is the encoded object, without a resourceVersion, and object the decoded one, with it.
	data   []byte
	object runtime.Object
}

type tree = btree.BTree[*entry]

// change is a revision of the store.
type change struct {
	revision int64
	// old is nil if the object was created, and current is nil if it was deleted. Both are nil in a revision without a change.
	old, current *entry
	// after are all objects after the change.
	after *tree
	size  int64
}

// Store is a storage.Interface.
type Store struct {
	resource  storages.Resource
	options   Options
	versioner storage.APIObjectVersioner
	keep      Keep
	write     Write
	keepGate  KeepGate
	// waitTimeout is how long a write may take, with its wait for the others before it. It is 0 without write.
	waitTimeout time.Duration

	// writing has room for one value, that of what writes. It is locked before mu, and held while keep or write works. It is a channel, so
	// that the wait for it can end.
	writing chan struct{}
	// gate is what Gate returns. What writes may read it, and SetGate sets it, while both hold writing.
	gate string
	mu   sync.Mutex
	// objects are those of revision current. size is that of their data.
	objects *tree
	current int64
	size    int64
	// history are the changes after revision compacted, whose objects base has.
	history     []change
	historySize int64
	base        *tree
	compacted   int64
	// changed wakes watches at each change.
	changed broadcast.Broadcast
	closed  bool
}

var _ storage.Interface = &Store{}

// New returns an empty store.
func New(r storages.Resource, o Options) (*Store, error) {
	if r.Codec == nil || r.New == nil || r.NewList == nil || !strings.HasPrefix(r.Prefix, "/") || !strings.HasSuffix(r.Prefix, "/") {
		return nil, fmt.Errorf("storage of %s: Codec, New, NewList and a Prefix between slashes are required", r.GroupResource)
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	o.HistoryChanges = cmp.Or(o.HistoryChanges, defaultHistoryChanges)
	o.HistoryBytes = cmp.Or(o.HistoryBytes, defaultHistoryBytes)
	if o.MaxBytes < 0 || o.HistoryChanges < 0 || o.HistoryBytes < 0 {
		return nil, fmt.Errorf("storage of %s: limits are positive", r.GroupResource)
	}
	objects := btree.New(treeDegree, func(a, b *entry) bool { return a.key < b.key })
	first := Following(0)
	return &Store{
		resource: r, options: o, objects: objects, base: objects.Clone(), current: first, compacted: first,
		writing: make(chan struct{}, 1),
	}, nil
}

// revisionSteps bounds the steps between revisions, in nanoseconds.
const revisionSteps = 1 << 16

// Following returns a revision after another: the time, if that is later, and a random step. So no two replicas count alike.
func Following(revision int64) int64 {
	return max(revision, time.Now().UnixNano()) + Step()
}

// Step returns how much later a revision is than the time or the revision before it.
func Step() int64 {
	return 1 + rand.Int64N(revisionSteps) //nolint:gosec // nothing depends on it being secret
}

// Keep writes an object where it outlasts the process, before any reader sees it, or removes it if data is nil. If it returns
// ErrConflict, because it has set another revision of the object, the write is tried again with that. After any other error, the store
// does not change.
type Keep func(key string, data []byte) error

// KeepBy makes the store keep objects. It is called before anything else uses the store.
func (s *Store) KeepBy(keep Keep) { s.keep = keep }

// Write makes a change in a database that several stores share, if the object is in a revision there, which is 0 if it does not exist. It
// then has this store apply all changes up to its own, whose revision it returns. If the object is in another revision, it has the store
// apply that, and returns ErrConflict. The context has a deadline.
type Write func(ctx context.Context, key string, revision int64, data []byte) (int64, error)

// ErrSlow is the cause of the end of a context for a [Write] that has taken longer than it may, and not longer than its client waits.
var ErrSlow = errors.New("the database takes too long")

// WriteTo makes the store a copy of a database, which gives no revision to two changes. A write takes at most waitTimeout. WriteTo is
// called before anything else uses the store.
func (s *Store) WriteTo(write Write, waitTimeout time.Duration) {
	s.write, s.waitTimeout = write, waitTimeout
}

// lock waits until nothing else writes, or the context ends.
func (s *Store) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) unlock() { <-s.writing }

var errBusy = apierrors.NewServiceUnavailable("the write has waited too long for the ones before it: try again later")

// Close ends all watches, and fails later requests.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.changed.Send()
	}
}

// Versioner implements storage.Interface.
func (s *Store) Versioner() storage.Versioner { return s.versioner }

// key returns a key as the store has it, or an error if it is none of the resource.
func (s *Store) key(key string, recursive bool) (string, error) {
	return storage.PrepareKey(s.resource.Prefix, key, recursive)
}

// ErrConflict says that an object is no longer in the revision that a write expects.
var ErrConflict = errors.New("the object has changed")

// look returns the latest revision of an object, or nil.
func (s *Store) look(key string) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	found, _ := s.objects.Get(&entry{key: key})
	return found, nil
}

var errClosed = apierrors.NewServiceUnavailable("the storage is closed")

// prepare returns an entry whose revision apply sets. That takes long, so it comes before the lock.
func (s *Store) prepare(key string, data []byte) (*entry, error) {
	object, err := s.decode(data)
	if err == nil {
		err = s.versioner.UpdateObject(object, 1)
	}
	if err != nil {
		return nil, err
	}
	return &entry{key: key, data: data, object: object}, nil
}

// bytes is what an entry counts for. No entry counts for nothing.
func (e *entry) bytes() int64 {
	if e == nil {
		return 0
	}
	return int64(len(e.key) + len(e.data))
}

// commit replaces old by new data, both of which may be nil, unless the object is no longer as old.
func (s *Store) commit(client context.Context, key string, old *entry, data []byte) (change, error) {
	var next *entry
	if data != nil {
		var err error
		if next, err = s.prepare(key, data); err != nil {
			return change{}, err
		}
	}
	ctx := client
	if s.waitTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(client, s.waitTimeout, ErrSlow)
		defer cancel()
	}
	if err := s.lock(ctx); err != nil {
		if client.Err() == nil {
			err = errBusy
		}
		return change{}, err
	}
	defer s.unlock()
	if s.write == nil && storages.MoveOf(client) != s.gate { // a database has the gate of its copies
		return change{}, storages.ErrorClosed(client, s.resource.GroupResource)
	}
	if err := s.accepts(key, old, next); err != nil {
		return change{}, err
	}
	if s.write != nil {
		return s.writeTo(ctx, key, old, data)
	}
	if s.keep != nil {
		if err := s.keep(key, data); err != nil {
			return change{}, err
		}
	}
	return s.put(old, next), nil
}

// writeTo makes a change in the database.
func (s *Store) writeTo(ctx context.Context, key string, old *entry, data []byte) (change, error) {
	var before int64
	if old != nil {
		before = old.revision
	}
	revision, err := s.write(ctx, key, before, data)
	if err != nil {
		return change{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.after(revision); i > 0 && s.history[i-1].revision == revision {
		return s.history[i-1], nil
	}
	return change{}, storage.NewInternalError(fmt.Errorf("the change of %s is made, and its object is forgotten already", key))
}

// accepts returns an error if a write cannot be done.
func (s *Store) accepts(key string, old, next *entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if found, _ := s.objects.Get(&entry{key: key}); found != old {
		return ErrConflict
	}
	if grows := next.bytes() - old.bytes(); grows > 0 && s.size+grows > s.options.MaxBytes && !marksDeleted(old, next) {
		return s.full()
	}
	return nil
}

// put makes a change that is accepted.
func (s *Store) put(old, next *entry) change {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.apply(Following(s.current), old, next)
	s.trim(1)
	if !s.closed {
		s.changed.Send()
	}
	return c
}

// marksDeleted reports whether a write begins the deletion of an object, which makes room in the end.
func marksDeleted(old, next *entry) bool {
	if old == nil || next == nil {
		return false
	}
	before, errBefore := meta.Accessor(old.object)
	after, errAfter := meta.Accessor(next.object)
	return errBefore == nil && errAfter == nil && before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil
}

// apply makes a change, of which old or next may be nil. The caller has the lock.
func (s *Store) apply(revision int64, old, next *entry) change {
	c := change{revision: revision, old: old, current: next, size: old.bytes() + next.bytes()}
	if next != nil {
		next.revision = c.revision
		s.versioner.UpdateObject(next.object, uint64(next.revision)) //nolint:errcheck // prepare has done it
		s.objects.ReplaceOrInsert(next)
	} else {
		s.objects.Delete(old)
	}
	s.size, s.current = s.size+next.bytes()-old.bytes(), c.revision
	c.after = s.objects.Clone()
	s.history, s.historySize = append(s.history, c), s.historySize+c.size
	return c
}

// trim forgets the oldest changes, but for the latest ones that belong together, so that watches get these. The caller has the lock.
func (s *Store) trim(latest int) {
	forget := 0
	for size := s.historySize; forget < len(s.history)-latest &&
		(len(s.history)-forget > s.options.HistoryChanges || size > s.options.HistoryBytes); forget++ {
		size -= s.history[forget].size
	}
	s.forget(forget)
}

// full is the error of a write for which there is no room.
func (s *Store) full() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: "InsufficientStorage",
		Message: fmt.Sprintf("the storage of %s is full: objects take %d bytes of %d. Delete some",
			s.resource.GroupResource, s.size, s.options.MaxBytes),
	}}
}

// forget drops the oldest changes.
func (s *Store) forget(changes int) {
	if changes == 0 {
		return
	}
	last := s.history[changes-1]
	s.base, s.compacted = last.after, last.revision
	for i := range changes {
		s.historySize -= s.history[i].size
		s.history[i] = change{} // the array lives on until append replaces it
	}
	s.history = s.history[changes:]
}

// Compact forgets what was before a revision. It is for tests. As with etcd, that is the next revision.
func (s *Store) Compact(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(s.after(revision))
	s.skip(s.current + 1)
	s.changed.Send()
}

// skip makes a revision without a change.
func (s *Store) skip(revision int64) {
	s.current = revision
	s.history = append(s.history, change{revision: revision, after: s.objects.Clone()})
}

func (s *Store) decode(data []byte) (runtime.Object, error) {
	object := s.resource.New()
	decoded, _, err := s.resource.Codec.Decode(data, nil, object)
	if err != nil {
		return nil, storage.NewInternalError(fmt.Errorf("decode an object of %s: %w", s.resource.GroupResource, err))
	}
	return decoded, nil
}

// encode returns the data of an object. It removes the resourceVersion from the object.
func (s *Store) encode(object runtime.Object) ([]byte, error) {
	if err := s.versioner.PrepareObjectForStorage(object); err != nil {
		return nil, fmt.Errorf("prepare an object of %s for the storage: %w", s.resource.GroupResource, err)
	}
	return runtime.Encode(s.resource.Codec, object)
}

// Create implements storage.Interface.
func (s *Store) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if ttl != 0 {
		return errTTL
	}
	if version, err := s.versioner.ObjectResourceVersion(object); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	data, err := s.encode(object)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		c, err := s.commit(ctx, key, nil, data)
		if errors.Is(err, ErrConflict) {
			if found, err := s.look(key); err != nil || found != nil {
				return cmp.Or(err, error(storage.NewKeyExistsError(key, 0)))
			}
			continue // an object that the store did not know yet is gone already
		}
		if err != nil || out == nil {
			return err
		}
		return c.current.copyTo(out)
	}
	return ctx.Err()
}

var errTTL = storage.NewInternalError(errors.New("this storage removes no objects by time"))

// Delete implements storage.Interface. What the caller has cached makes nothing faster here, so it is ignored.
func (s *Store) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions,
) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		old, err := s.look(key)
		if err != nil {
			return err
		}
		if old == nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		object := old.object.DeepCopyObject()
		if preconditions != nil {
			if err := preconditions.Check(key, object); err != nil {
				return err
			}
		}
		if err := validate(ctx, object); err != nil {
			return err
		}
		c, err := s.commit(ctx, key, old, nil)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		return s.deleted(c, out)
	}
	return ctx.Err()
}

// deleted sets an object to its last state. Its resourceVersion is that of the deletion.
func (s *Store) deleted(c change, out runtime.Object) error {
	if err := c.old.copyTo(out); err != nil {
		return err
	}
	return s.versioner.UpdateObject(out, uint64(c.revision))
}

// GuaranteedUpdate implements storage.Interface. What the caller has cached makes nothing faster here, so it is ignored.
func (s *Store) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	tryUpdate storage.UpdateFunc, _ runtime.Object,
) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		old, err := s.look(key)
		if err != nil {
			return err
		}
		if old == nil && !ignoreNotFound {
			return storage.NewKeyNotFoundError(key, 0)
		}
		data, err := s.update(key, old, preconditions, tryUpdate)
		if err != nil {
			return err
		}
		if old != nil && bytes.Equal(data, old.data) {
			return old.copyTo(destination)
		}
		c, err := s.commit(ctx, key, old, data)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		return c.current.copyTo(destination)
	}
	return ctx.Err()
}

// update returns the data that takes the place of an object, which is nil if there is none.
func (s *Store) update(key string, old *entry, preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc) ([]byte, error) {
	object, response := s.resource.New(), storage.ResponseMeta{}
	if old != nil {
		object, response.ResourceVersion = old.object.DeepCopyObject(), uint64(old.revision)
	}
	if err := preconditions.Check(key, object); err != nil {
		return nil, err
	}
	updated, ttl, err := tryUpdate(object, response)
	if err != nil {
		return nil, err
	}
	if ttl != nil && *ttl != 0 {
		return nil, errTTL
	}
	return s.encode(updated)
}
