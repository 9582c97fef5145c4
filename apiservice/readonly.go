// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
)

// ReadOnly is a resource whose objects a function returns, such as measurements. Clients get, list and, with PollInterval, watch them. It
// keeps nothing in etcd. T is as for [Objects].
type ReadOnly[T runtime.Object] struct {
	// Name, Singular, ShortNames, Categories, ClusterScoped, Versions, Columns and SelectableFields are as for [Objects].
	Name, Singular         string
	ShortNames, Categories []string
	ClusterScoped          bool
	Versions               []string
	Columns                []Column[T]
	SelectableFields       map[string]func(object T) string

	// List returns the objects of a namespace, or all if the namespace is empty. It heeds the context, and nothing changes the objects
	// afterwards. An error that is no metav1.Status becomes a 500. An object without a name or of another namespace is an error: the reader
	// may not be allowed to see it.
	List func(ctx context.Context, namespace string) ([]T, error)
	// Get returns an object, or an error that k8s.io/apimachinery/pkg/api/errors.IsNotFound knows. If it is nil, List finds the object. It
	// is not called if PollInterval is set.
	Get func(ctx context.Context, namespace, name string) (T, error)
	// PollInterval makes the service call List for all namespaces at this interval, of at least a tenth of a second. A call has a minute. The
	// service answers all requests from the latest result that is no error, and watches by its differences from the one before. Until the
	// first result, requests get 503. If PollInterval is 0, each request calls Get or List, and clients cannot watch. Each replica polls by
	// itself, so balance with rendezvous: a client that comes to another replica gets 410 and lists again.
	PollInterval time.Duration
}

// minPollInterval keeps a wrong unit from taking a processor.
const minPollInterval = time.Second / 10

// asObjects returns the resource as one whose objects are kept.
func (r ReadOnly[T]) asObjects() Objects[T] {
	return Objects[T]{
		Name: r.Name, Singular: r.Singular, ShortNames: r.ShortNames, Categories: r.Categories, ClusterScoped: r.ClusterScoped,
		Versions: r.Versions, Columns: r.Columns, SelectableFields: r.SelectableFields,
	}
}

func (r ReadOnly[T]) addHub(t *types, g Group) error {
	switch {
	case r.List == nil:
		return fmt.Errorf("resource %s: a ReadOnly resource needs List", r.Name)
	case r.PollInterval != 0 && r.PollInterval < minPollInterval:
		return fmt.Errorf("resource %s: PollInterval is %s, and at least %s is required", r.Name, r.PollInterval, minPollInterval)
	}
	return r.asObjects().addHub(t, g)
}

func (r ReadOnly[T]) name() string { return r.Name }

func (r ReadOnly[T]) served() []string { return r.Versions }

func (r ReadOnly[T]) stored() bool { return false }

func (r ReadOnly[T]) longRunning() []string { return nil }

func (r ReadOnly[T]) storages(e *Environment, g Group, _ generic.RESTOptionsGetter) (map[string]rest.Storage, error) {
	poll := &poller[T]{resource: r}
	kept := r.asObjects()
	kept.Storage = poll.open
	all, err := kept.storages(e, g, nil)
	if err != nil {
		return nil, err
	}
	reader := reader{all[r.Name].(*objects)}
	if r.PollInterval == 0 {
		return map[string]rest.Storage{r.Name: &asked[T]{reader, r}}, nil
	}
	poll.start()
	return map[string]rest.Storage{r.Name: &polled{reader}}, nil
}

// reader is a resource without verbs.
type reader struct{ objects *objects }

func (r reader) New() runtime.Object     { return r.objects.New() }
func (r reader) NewList() runtime.Object { return r.objects.NewList() }
func (r reader) Destroy()                { r.objects.Destroy() }
func (r reader) NamespaceScoped() bool   { return r.objects.NamespaceScoped() }
func (r reader) GetSingularName() string { return r.objects.GetSingularName() }
func (r reader) ShortNames() []string    { return r.objects.ShortNames() }
func (r reader) Categories() []string    { return r.objects.Categories() }

func (r reader) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return r.objects.ConvertToTable(ctx, object, options)
}

// polled is a resource whose objects a poller keeps.
type polled struct{ reader }

var (
	_ rest.Lister  = &polled{}
	_ rest.Getter  = &polled{}
	_ rest.Watcher = &polled{}
)

func (p *polled) ready() error { return p.objects.ReadinessCheckFunc() }

// ReadinessCheck implements rest.StorageWithReadiness: a replica is not ready before its first result.
func (p *polled) ReadinessCheck() error { return p.ready() }

func (p *polled) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	return p.objects.Get(ctx, name, options)
}

func (p *polled) List(ctx context.Context, options *metainternal.ListOptions) (runtime.Object, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	return p.objects.List(ctx, options)
}

func (p *polled) Watch(ctx context.Context, options *metainternal.ListOptions) (watch.Interface, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	return p.objects.Watch(ctx, options)
}

// asked is a resource whose objects a function returns for each request.
type asked[T runtime.Object] struct {
	reader
	resource ReadOnly[T]
}

func (a *asked[T]) qualified() schema.GroupResource { return a.objects.DefaultQualifiedResource }

// checked returns the objects of a namespace, as List returns them.
func (r ReadOnly[T]) checked(ctx context.Context, namespace string) ([]T, error) {
	all, err := r.List(ctx, namespace)
	for i := range all {
		if err == nil {
			err = r.check(all[i], namespace)
		}
	}
	return all, err
}

// check returns an error if a request for a namespace must not have an object.
func (r ReadOnly[T]) check(object T, namespace string) error {
	m, err := meta.Accessor(object)
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case m.GetName() == "":
		return apierrors.NewInternalError(fmt.Errorf("the service returned one of %s without a name", r.Name))
	case r.ClusterScoped == (m.GetNamespace() != ""), namespace != "" && m.GetNamespace() != namespace:
		return apierrors.NewInternalError(fmt.Errorf("the service returned %s %q of namespace %q for namespace %q",
			r.Name, m.GetName(), m.GetNamespace(), namespace))
	}
	return nil
}

// Get implements rest.Getter.
func (a *asked[T]) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	namespace := request.NamespaceValue(ctx)
	if a.resource.Get != nil {
		object, err := a.resource.Get(ctx, namespace, name)
		if err == nil {
			err = a.resource.check(object, namespace)
		}
		if err != nil {
			return nil, err
		}
		if m, err := meta.Accessor(object); err != nil || m.GetName() != name { // the reader may not be allowed to see that one
			return nil, apierrors.NewInternalError(fmt.Errorf("the service returned another one of %s than %q", a.resource.Name, name))
		}
		return object.DeepCopyObject(), nil
	}
	all, err := a.resource.checked(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for _, object := range all {
		if m, err := meta.Accessor(object); err == nil && m.GetName() == name {
			return object.DeepCopyObject(), nil
		}
	}
	return nil, apierrors.NewNotFound(a.qualified(), name)
}

// List implements rest.Lister. It returns all objects in one page.
func (a *asked[T]) List(ctx context.Context, options *metainternal.ListOptions) (runtime.Object, error) {
	label, field := labels.Everything(), fields.Everything()
	if options != nil && options.LabelSelector != nil {
		label = options.LabelSelector
	}
	if options != nil && options.FieldSelector != nil {
		field = options.FieldSelector
	}
	all, err := a.resource.checked(ctx, request.NamespaceValue(ctx))
	if err != nil {
		return nil, err
	}
	selected := a.objects.PredicateFunc(label, field)
	matching := []runtime.Object{}
	for _, object := range all {
		matches, err := selected.Matches(object)
		if err != nil {
			return nil, err
		}
		if matches {
			matching = append(matching, object.DeepCopyObject())
		}
	}
	list := a.NewList()
	return list, meta.SetList(list, matching)
}
