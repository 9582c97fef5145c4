// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/services/search/parties"
)

// Errors of objects that are not known.
var (
	// ErrUnread means that it is unknown yet whether an object exists. It wraps the reason, if the cluster refuses the request.
	ErrUnread   = errors.New("was not read yet")
	ErrNotFound = errors.New("does not exist")
)

// Objects follows objects from the first request for them. Only one goroutine may use it.
type Objects struct {
	client  dynamic.Interface
	memory  *Memory
	changed func()
	// followers have an empty name for all objects of a resource.
	followers map[target]*follower
	// Bounds are Standard, and Trim removes unused fields from objects of a resource. Most is how many single objects are followed at
	// most, or zero if there is no bound. Change them before anything is followed.
	Bounds Bounds
	Trim   map[schema.GroupVersionResource]func(*unstructured.Unstructured)
	Most   int
}

type target struct {
	schema.GroupVersionResource
	namespace, name string
}

// String names the target for people.
func (t target) String() string {
	if t.name == "" {
		return t.GroupResource().String()
	}
	return fmt.Sprintf("%s %s", t.GroupResource(), cache.NewObjectName(t.namespace, t.name))
}

// New returns Objects that follow nothing, and share memory with others. changed is called after each change, by any goroutine.
func New(client dynamic.Interface, memory *Memory, changed func()) *Objects {
	return &Objects{client: client, memory: memory, changed: changed, followers: map[target]*follower{}, Bounds: Standard}
}

// List returns all objects of a resource. It needs the right to list and watch them all.
func (o *Objects) List(resource schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	f := o.follow(target{GroupVersionResource: resource})
	if err := f.unread(); err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, object := range f.informer.GetStore().List() {
		all = append(all, object.(*unstructured.Unstructured))
	}
	return all, nil
}

// Of returns one of the objects of List.
func (o *Objects) Of(resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return o.follow(target{GroupVersionResource: resource}).get(namespace, name)
}

// One returns an object. It needs the right to list and watch this one, so that a role may name it.
func (o *Objects) One(resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return o.follow(target{resource, namespace, name}).get(namespace, name)
}

// OneFor does the same for one of several parties that share Most. If it fails with ErrTooMany, the party has its share of them.
func (o *Objects) OneFor(party parties.Party, resource schema.GroupVersionResource, namespace, name string) (
	*unstructured.Unstructured, error,
) {
	t := target{resource, namespace, name}
	if o.followers[t] == nil && o.Most > 0 && !o.makeRoom(party) {
		return nil, fmt.Errorf("%w: it follows %d objects by their names", ErrTooMany, o.Most)
	}
	f := o.follow(t)
	f.sharers[party] = true
	return f.get(namespace, name)
}

// makeRoom reports whether a party may follow one more object. If there is no room, a party with more than it would have then loses one. An
// object that several parties follow counts for each, and is lost by none of them before the one with fewest would lose it.
func (o *Objects) makeRoom(party parties.Party) bool {
	has := map[parties.Party]int{}
	var named []*follower
	for t, f := range o.followers {
		if t.name == "" {
			continue
		}
		named = append(named, f)
		for sharer := range f.sharers {
			has[sharer]++
		}
	}
	if len(named) < o.Most {
		return true
	}
	fewest := func(f *follower) int {
		n := 0
		for sharer := range f.sharers {
			if n == 0 || has[sharer] < n {
				n = has[sharer]
			}
		}
		return n
	}
	most := slices.MaxFunc(named, func(a, b *follower) int {
		return cmp.Or(cmp.Compare(fewest(a), fewest(b)), cmp.Compare(a.target.String(), b.target.String()))
	})
	if fewest(most) <= has[party]+1 {
		return false
	}
	most.stop()
	delete(o.followers, most.target)
	return true
}

// Sweep stops informers that were not used since the last Sweep, and forgets parties that have not used them since.
func (o *Objects) Sweep() {
	for target, f := range o.followers {
		if !f.used {
			f.stop()
			delete(o.followers, target)
		}
		f.used = false
		maps.DeleteFunc(f.sharers, func(_ parties.Party, asked bool) bool { return !asked })
		for party := range f.sharers {
			f.sharers[party] = false
		}
	}
}

// Stop stops to follow everything.
func (o *Objects) Stop() {
	for _, f := range o.followers {
		f.used = false
	}
	o.Sweep()
}

func (o *Objects) follow(t target) *follower {
	f := o.followers[t]
	if f != nil && f.excessive() {
		f.stop() // and begin again: it reads pages until they are too many, after longer and longer pauses
		f = nil
	}
	if f == nil {
		f = o.start(t)
		o.followers[t] = f
	}
	f.used = true
	return f
}

// follower is an informer of a target.
type follower struct {
	target   target
	informer cache.SharedIndexInformer
	end      func()
	used     bool
	// sharers are the parties that follow it, see OneFor, and whether they have asked for it since the last Sweep.
	sharers map[parties.Party]bool

	mu sync.Mutex
	// failure is why the last attempt to list or watch failed.
	failure error
	// excess is set once the target has become too large.
	excess error
	// sizes are of the objects that are kept, and bytes is their sum. listed is the size of the last list, which is kept before it is in
	// sizes.
	sizes         map[string]int
	bytes, listed int
	// memory counts it. changed and cancel report its end.
	memory  *pool
	changed func()
	cancel  context.CancelFunc
}

func (o *Objects) start(t target) *follower {
	trim := o.trim(t.GroupVersionResource)
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{
		target: t, sizes: map[string]int{}, sharers: map[parties.Party]bool{}, memory: o.memory.of(t), changed: o.changed, cancel: cancel,
	}
	f.informer = newInformer(o.client, t, o.Bounds, trim, f.reads)
	// The informer has not started, so none of these can fail.
	f.informer.SetTransform(func(object any) (any, error) { //nolint:errcheck // see above
		if one, is := object.(*unstructured.Unstructured); is {
			trim(one)
		}
		return object, nil
	})
	f.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { //nolint:errcheck // see above
		synced := f.informer.HasSynced()
		f.mu.Lock()
		if f.failure = err; synced && errors.Is(err, ErrTooMany) { // listed again, so what is kept is old
			f.excess = err
		}
		f.mu.Unlock()
		o.changed()
	})
	handle := func(object any, gone bool) {
		if !f.count(object, gone, o.Bounds) {
			cancel()
		}
		o.changed()
	}
	f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ //nolint:errcheck // see above
		AddFunc: func(object any) { handle(object, false) }, UpdateFunc: func(_, object any) { handle(object, false) },
		DeleteFunc: func(object any) { handle(object, true) },
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		var group wait.Group
		defer group.Wait()
		group.Start(func() {
			if cache.WaitForCacheSync(ctx.Done(), f.informer.HasSynced) {
				o.changed()
			}
		})
		f.informer.RunWithContext(ctx)
	}()
	f.end = func() {
		cancel()
		<-done
		f.memory.forget(f)
	}
	return f
}

func newInformer(client dynamic.Interface, t target, bounds Bounds, trim func(*unstructured.Unstructured),
	reads func(int) error) cache.SharedIndexInformer {
	choose := func(*metav1.ListOptions) {}
	if t.name != "" {
		choose = func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, t.name).String()
		}
	}
	from := &source{resource: client.Resource(t.GroupVersionResource).Namespace(t.namespace), choose: choose, trim: trim, bounds: bounds,
		reads: reads}
	return cache.NewSharedIndexInformer(from, &unstructured.Unstructured{}, 0, cache.Indexers{})
}

// count keeps account of an object, and returns false if there are too many.
func (f *follower) count(object any, gone bool, bounds Bounds) bool {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return true
	}
	f.mu.Lock()
	f.bytes -= f.sizes[key]
	delete(f.sizes, key)
	if one, is := object.(*unstructured.Unstructured); is && !gone {
		f.sizes[key] = sizeOf(one.Object)
		f.bytes += f.sizes[key]
	}
	if err := bounds.check(len(f.sizes), f.bytes); err != nil {
		f.excess = err
	}
	if f.informer.HasSynced() {
		f.listed = 0
	}
	kept, over := max(f.bytes, f.listed), f.excess != nil
	f.mu.Unlock()
	if over {
		return false // it is forgotten already, or will be
	}
	if gone, why := f.memory.set(f, kept, 0); gone != nil {
		gone.giveWay(why)
	}
	return !f.excessive()
}

// reads counts what was read of a list. What was known before stays if the list is too large beside what others keep: the informer tries
// again.
func (f *follower) reads(bytes int) error {
	f.mu.Lock()
	kept := f.bytes
	f.listed = bytes
	f.mu.Unlock()
	gone, why := f.memory.set(f, kept, bytes)
	if gone == nil {
		return nil
	}
	if gone != f {
		gone.giveWay(why)
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = 0
	return why
}

// giveWay forgets everything.
func (f *follower) giveWay(why error) {
	f.mu.Lock()
	f.excess = why
	f.mu.Unlock()
	f.cancel()
	f.changed()
}

// trim returns a function that removes unused fields from objects: managedFields, and what Trim does.
func (o *Objects) trim(resource schema.GroupVersionResource) func(*unstructured.Unstructured) {
	more := o.Trim[resource]
	return func(object *unstructured.Unstructured) {
		if object.SetManagedFields(nil); more != nil {
			more(object)
		}
	}
}

func (f *follower) stop() { f.end() }

func (f *follower) excessive() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.excess != nil
}

// unread returns why nothing is known, or nil.
func (f *follower) unread() error {
	if f.informer.HasSynced() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil {
		return fmt.Errorf("%s %w: %w", f.target, ErrUnread, f.failure)
	}
	return fmt.Errorf("%s %w", f.target, ErrUnread)
}

func (f *follower) get(namespace, name string) (*unstructured.Unstructured, error) {
	if err := f.unread(); err != nil {
		return nil, err
	}
	key := cache.NewObjectName(namespace, name).String()
	object, exists, err := f.informer.GetStore().GetByKey(key)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("%s %s %w", f.target.GroupResource(), key, ErrNotFound)
	}
	return object.(*unstructured.Unstructured), nil
}
