// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

// Decorate returns a decorator that makes storages which are in the etcd of their group. decorator returns the decorator for one etcd, with
// the way to make storages without a cache.
func (g *Groups) Decorate(decorator func(etcdclient.NewRawStorage) generic.StorageDecorator) generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource,
		resourcePrefix string,
		keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object,
		getAttrs storage.AttrFunc,
		trigger storage.IndexerFuncs,
		indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		s := &placed{group: g.group(config.GroupResource.Group), make: func(p *place) (storage.Interface, factory.DestroyFunc, error) {
			there := *config
			there.Transport, there.CompactionInterval = p.etcd.Transport, p.etcd.CompactionInterval
			if g.fixed {
				return decorator(g.Clients.NewStorage)(&there, resourcePrefix, keyFunc, newFunc, newListFunc, getAttrs, trigger, indexers)
			}
			raw := g.Clients.Wrapped(func(kv clientv3.KV) clientv3.KV { return newFenced(kv, p) })
			return decorator(p.vouched(raw))(&there, resourcePrefix, keyFunc, newFunc, newListFunc, getAttrs, trigger, indexers)
		}}
		return s, s.destroy, nil
	}
}

// placed is the storage of a resource, in the etcd of its group.
type placed struct {
	group *group
	make  func(*place) (storage.Interface, factory.DestroyFunc, error)

	mu   sync.Mutex
	made *made
	// destroyed is set once nothing more is made.
	destroyed bool
}

// made is a storage in one etcd.
type made struct {
	storage.Interface
	place   *place
	destroy factory.DestroyFunc
	// users is how many requests use the storage. If retired, the last one destroys it. The mutex of placed guards both.
	users   int
	retired bool
	// stay keeps the storage when its place ends.
	stay func() bool
	// initializing is set while the watch cache of a place to which the objects have moved has not been ready.
	initializing atomic.Bool
}

// use returns the storage in the etcd that has the objects now. The caller calls release.
func (s *placed) use(ctx context.Context) (used *made, release func(), err error) {
	at, err := s.group.place(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.group.current.Load(); s.made != nil && s.made.place == now {
		at = now // the objects have moved while this waited
	}
	if s.destroyed {
		return nil, nil, s.group.unavailable("the resource is being removed")
	}
	if s.made == nil || s.made.place != at {
		made, destroy, err := s.make(at)
		if err != nil {
			return nil, nil, err
		}
		mine := newMade(made, destroy, at)
		mine.initializing.Store(s.made != nil)
		s.made.retire()
		s.made = mine
		mine.stay = context.AfterFunc(at.context, func() { s.retire(mine) })
	}
	used = s.made
	used.users++
	return used, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if used.users--; used.users == 0 && used.retired {
			used.destroy()
		}
	}), nil
}

func newMade(of storage.Interface, destroy factory.DestroyFunc, at *place) *made {
	return &made{Interface: of, place: at, destroy: sync.OnceFunc(destroy)}
}

func (s *placed) retire(old *made) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old.retire()
}

// retire destroys the storage, now or when nothing uses it any more.
func (m *made) retire() {
	if m == nil {
		return
	}
	m.stay()
	if m.retired = true; m.users == 0 {
		m.destroy()
	}
}

func (s *placed) destroy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.destroyed {
		return
	}
	s.destroyed = true
	s.made.retire()
	s.group.release()
}

// Versioner implements storage.Interface.
func (s *placed) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// Create implements storage.Interface.
func (s *placed) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	used, release, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	return used.Create(ctx, key, obj, out, ttl)
}

// Delete implements storage.Interface.
func (s *placed) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc,
	cached runtime.Object, opts storage.DeleteOptions,
) error {
	used, release, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	return used.Delete(ctx, key, out, preconditions, validate, cached, opts)
}

// GuaranteedUpdate implements storage.Interface.
func (s *placed) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	tryUpdate storage.UpdateFunc, cached runtime.Object,
) error {
	used, release, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	return used.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, cached)
}

// placesOfARead is how many places a read tries. Two moves of a group are seconds apart.
const placesOfARead = 3

const readyInterval = 10 * time.Millisecond

// read reads from the storage in the etcd that has the objects now. If they leave meanwhile, it reads where they are then: reads go on
// during a move, also in a replica that receives the move only now.
func (s *placed) read(ctx context.Context, from func(*made) error) error {
	for n := 1; ; n++ {
		used, release, err := s.use(ctx)
		if err != nil {
			return err
		}
		err = func() error {
			defer release()
			return from(used)
		}()
		if err == nil || used.place.context.Err() == nil || ctx.Err() != nil || n == placesOfARead {
			return err
		}
	}
}

// awaitReady waits until the watch cache of a new place has the objects. Until then, it would refuse lists with 429.
func (m *made) awaitReady(ctx context.Context) {
	if !m.initializing.Load() {
		return
	}
	ready := func(context.Context) (bool, error) {
		return m.ReadinessCheck() == nil || m.place.context.Err() != nil, nil
	}
	if wait.PollUntilContextTimeout(ctx, readyInterval, findTimeout, true, ready) == nil || ctx.Err() == nil {
		m.initializing.Store(false) // later, it is as with any other cache
	}
}

// Get implements storage.Interface.
func (s *placed) Get(ctx context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	return s.read(ctx, func(used *made) error {
		if err := used.place.refuseBeyond(ctx, versionOf(opts.ResourceVersion)); err != nil {
			return err
		}
		return used.Get(ctx, key, opts, into)
	})
}

// GetList implements storage.Interface. The states from before a move are in another etcd.
func (s *placed) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	err := s.read(ctx, func(used *made) error {
		used.awaitReady(ctx)
		if err := used.place.refuseList(ctx, opts); err != nil {
			return err
		}
		// It may have objects of the former place.
		if err := meta.SetList(list, nil); err != nil {
			return err
		}
		return used.GetList(ctx, key, opts, list)
	})
	if isFinalizing(ctx, err) {
		return meta.SetList(list, nil)
	}
	return err
}

// Watch implements storage.Interface. A watch ends when the objects move. If it is from before a move, its client has to list.
func (s *placed) Watch(ctx context.Context, key string, opts storage.ListOptions) (watching watch.Interface, err error) {
	err = s.read(ctx, func(used *made) error {
		used.awaitReady(ctx)
		watching, err = used.watch(ctx, key, opts)
		return err
	})
	return watching, err
}

func (m *made) watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if err := m.place.refuseWatch(ctx, opts); err != nil {
		if !apierrors.IsResourceExpired(err) {
			return nil, err
		}
		events := make(chan watch.Event, 1)
		events <- watch.Event{Type: watch.Error, Object: &expired().ErrStatus}
		close(events)
		return watch.NewProxyWatcher(events), nil
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(m.place.context, cancel)
	context.AfterFunc(ctx, func() { stop() })
	return m.Watch(ctx, key, opts)
}

// Stats implements storage.Interface.
func (s *placed) Stats(ctx context.Context) (storage.Stats, error) {
	used, release, err := s.use(ctx)
	if err != nil {
		return storage.Stats{}, err
	}
	defer release()
	return used.Stats(ctx)
}

// ReadinessCheck implements storage.Interface. Without a storage, the next request makes it.
func (s *placed) ReadinessCheck() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil || s.made.retired {
		return nil
	}
	return s.made.ReadinessCheck()
}

// RequestWatchProgress implements storage.Interface.
func (s *placed) RequestWatchProgress(ctx context.Context) error {
	used, release, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	return used.RequestWatchProgress(ctx)
}

// GetCurrentResourceVersion implements storage.Interface.
func (s *placed) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	used, release, err := s.use(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	return used.GetCurrentResourceVersion(ctx)
}

// EnableResourceSizeEstimation implements storage.Interface. A watch cache calls it for its own storage.
func (s *placed) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface.
func (s *placed) CompactRevision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		return 0
	}
	return s.made.CompactRevision()
}
