// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"context"
	"errors"
	"path"
	"reflect"
	"strconv"

	"golang.org/x/sync/errgroup"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

// concurrentReads is how many definitions of a list are read at a time.
const concurrentReads = 16

// Own returns a getter whose storage of definitions has those of a partition other than the default one. It refuses all writes. It has no
// watch cache: only the informer of the replica reads definitions there, and has them all in memory already.
func Own(getter generic.RESTOptionsGetter, partition Partition) generic.RESTOptionsGetter {
	const cached = false
	raw := partition.raw(&etcdclient.Clients{})
	return decorated{getter, func(generic.StorageDecorator) generic.StorageDecorator { return etcdclient.Decorator(raw, cached) }}
}

// decorated is a getter that decorates the storage of definitions.
type decorated struct {
	generic.RESTOptionsGetter
	decorate func(generic.StorageDecorator) generic.StorageDecorator
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g decorated) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err == nil && resource == Resource {
		options.Decorator = g.decorate(options.Decorator)
	}
	return options, err
}

// raw makes storages without a watch cache.
func (p Partition) raw(clients *etcdclient.Clients) etcdclient.NewRawStorage {
	return func(
		config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string,
	) (storage.Interface, factory.DestroyFunc, error) {
		limited := *config
		if limited.Transformer == nil {
			limited.Transformer = identity.NewEncryptCheckTransformer()
		}
		limited.Transformer = skipping{limited.Transformer, p}
		made, destroy, err := clients.NewStorage(&limited, newFunc, newListFunc, resourcePrefix)
		if err != nil {
			return nil, nil, err
		}
		return &owned{
			Interface: made, partition: p, newList: newListFunc,
			names: func(ctx context.Context, key string) ([]string, int64, error) { return clients.Names(ctx, config, key) },
		}, destroy, nil
	}
}

// skipping gives the decoder a name in place of a definition of another partition, so that it decodes no schemas of others.
type skipping struct {
	value.Transformer
	partition Partition
}

// TransformFromStorage implements value.Transformer.
func (t skipping) TransformFromStorage(ctx context.Context, data []byte, at value.Context) (out []byte, stale bool, err error) {
	name := path.Base(string(at.AuthenticatedData()))
	if t.partition.Has(name) {
		return t.Transformer.TransformFromStorage(ctx, data, at)
	}
	const begin = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":`
	return []byte(begin + strconv.Quote(name) + "}}"), false, nil
}

// owned is a storage that has the definitions of a partition, and refuses writes.
type owned struct {
	storage.Interface
	partition Partition
	newList   func() runtime.Object
	// names lists the names of all definitions below a key, and the revision of that.
	names func(ctx context.Context, key string) (names []string, revision int64, err error)
}

// errListFirst makes an informer list, and then watch. Events of etcd for the present state would have the values of all definitions.
var errListFirst = apierrors.NewBadRequest("a partition of extensions sends no initial events of CustomResourceDefinitions: list them")

var errReadOnly = errors.New("only the default partition of extensions writes CustomResourceDefinitions")

// Create implements storage.Interface.
func (s *owned) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return errReadOnly
}

// Delete implements storage.Interface.
func (s *owned) Delete(
	context.Context, string, runtime.Object, *storage.Preconditions, storage.ValidateObjectFunc, runtime.Object, storage.DeleteOptions,
) error {
	return errReadOnly
}

// GuaranteedUpdate implements storage.Interface.
func (s *owned) GuaranteedUpdate(
	context.Context, string, runtime.Object, bool, *storage.Preconditions, storage.UpdateFunc, runtime.Object,
) error {
	return errReadOnly
}

// Get implements storage.Interface.
func (s *owned) Get(ctx context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	if !s.partition.Has(path.Base(key)) {
		if opts.IgnoreNotFound {
			return runtime.SetZeroValue(into)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	return s.Interface.Get(ctx, key, opts, into)
}

// Watch implements storage.Interface. Bookmarks bring the informer to the revision of etcd. Without them, its last resourceVersion would be
// too old  while only definitions of others change.
func (s *owned) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		return nil, errListFirst
	}
	opts.ProgressNotify = opts.Predicate.AllowWatchBookmarks
	opts.Predicate = s.partition.restrict(opts.Predicate)
	return s.Interface.Watch(ctx, key, opts)
}

// GetList implements storage.Interface. A list of the present state reads no values of other partitions from etcd. It ignores the limit,
// because all of it comes at once.
func (s *owned) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	opts.Predicate = s.partition.restrict(opts.Predicate)
	if !opts.Recursive || opts.Predicate.Continue != "" || opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		return s.Interface.GetList(ctx, key, opts, list)
	}
	names, revision, err := s.names(ctx, key)
	if err != nil {
		return err
	}
	now := uint64(revision)
	if least, err := s.Versioner().ParseResourceVersion(opts.ResourceVersion); err != nil || least > now {
		return s.Interface.GetList(ctx, key, opts, list) // which says what is wrong
	}
	opts.ResourceVersion, opts.ResourceVersionMatch = strconv.FormatInt(revision, 10), metav1.ResourceVersionMatchExact
	opts.Recursive, opts.Predicate.Limit = false, 0
	found, err := s.read(ctx, key, names, opts)
	if err != nil {
		return err
	}
	if err := appendItems(list, found); err != nil {
		return err
	}
	return s.Versioner().UpdateList(list, now, "", nil)
}

// read reads the definitions of the partition that have names, as one list each.
func (s *owned) read(ctx context.Context, key string, names []string, opts storage.ListOptions) ([]runtime.Object, error) {
	lists := make([]runtime.Object, 0, len(names))
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(concurrentReads)
	for _, name := range names {
		if !s.partition.Has(name) {
			continue
		}
		one := s.newList()
		lists = append(lists, one)
		reading.Go(func() error { return s.Interface.GetList(ctx, path.Join(key, name), opts, one) })
	}
	return lists, reading.Wait()
}

// appendItems appends the items of lists to a list of the same type.
func appendItems(to runtime.Object, lists []runtime.Object) error {
	pointer, err := meta.GetItemsPtr(to)
	if err != nil {
		return err
	}
	items := reflect.ValueOf(pointer).Elem()
	for _, list := range lists {
		more, err := meta.GetItemsPtr(list)
		if err != nil {
			return err
		}
		items.Set(reflect.AppendSlice(items, reflect.ValueOf(more).Elem()))
	}
	if items.IsNil() {
		items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	}
	return nil
}
