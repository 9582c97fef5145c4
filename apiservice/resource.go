// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tripod-k8s/tripod/apiservice/storages"
)

// Resource is a resource of a group. Objects keeps it in etcd or in another storage. ReadOnly has a function return it. Custom is
// served as the author chooses.
type Resource interface {
	// addHub prepares the scheme.
	addHub(*types, Group) error
	// name returns the plural, or PLURAL/SUBRESOURCE.
	name() string
	// served returns the versions that serve the resource: those of the group if empty.
	served() []string
	// stored reports whether the resource is kept in etcd.
	stored() bool
	// longRunning returns the subresources whose requests last, such as books/tail.
	longRunning() []string
	// storages returns what serves the resource and its subresources, by name.
	storages(*Environment, Group, generic.RESTOptionsGetter) (map[string]rest.Storage, error)
}

// Objects is a resource whose objects are kept in etcd, or where Storage says. T is a pointer to the type that validation and admission
// see. Other versions are converted to it and from it.
type Objects[T runtime.Object] struct {
	// Name is the plural, in lower case. Singular is the kind in lower case if empty.
	Name, Singular string
	// ShortNames and Categories are what kubectl accepts in the place of Name.
	ShortNames, Categories []string
	// ClusterScoped objects are in no namespace.
	ClusterScoped bool
	// Versions serve the resource: those of the group if empty.
	Versions []string

	// Validate returns what is wrong with an object that is to be created. It may be nil. The limits that comments of T's type have, such as
	// +k8s:validation:maximum=10, need no code.
	Validate func(ctx context.Context, object T) field.ErrorList
	// ValidateUpdate returns what is wrong with an object that takes the place of another. It is Validate if nil.
	ValidateUpdate func(ctx context.Context, object, old T) field.ErrorList
	// Prepare changes an object before it is validated, old being nil when it is created. It may be nil.
	Prepare func(ctx context.Context, object, old T)
	// Warnings returns warnings for the client about an object that is valid, such as that a field is deprecated: short sentences, which
	// kubectl shows. old is nil when the object is created. It may be nil.
	Warnings func(ctx context.Context, object, old T) []string
	// SelectableFields are what field selectors can select by besides metadata.name and metadata.namespace, such as spec.author, in all
	// versions. Each function returns the value of an object. They may be nil.
	SelectableFields map[string]func(object T) string
	// Status gives the resource the subresource status. T has fields Spec and Status then. Only the subresource changes the status, and
	// metadata.generation grows with each change of anything else but metadata.
	Status bool
	// Columns are shown by kubectl get between the name and the age. Without any, the name and the time of creation are.
	Columns []Column[T]

	// Storage keeps the objects elsewhere than in etcd, such as memory.Open of apiservice/storages/memory. It may be nil. A service without
	// resources in etcd needs no etcd.
	Storage storages.Open
	// CreateOnUpdate lets PUT create objects.
	CreateOnUpdate bool
	// UnconditionalUpdate lets PUT replace objects without a resourceVersion.
	UnconditionalUpdate bool
	// Subresources are served beside the resource, by name. They may be nil.
	Subresources map[string]func(*Environment) (rest.Storage, error)
	// LongRunning names those of Subresources whose requests last until the client or the service ends them, such as streams and tunnels.
	// Others end with --request-timeout. Storages end such a request when its context ends, as it does when the service stops.
	LongRunning []string
}

// Custom is a resource that the author serves without etcd. A storage implements some of rest.Getter, rest.Lister, rest.Watcher and the
// like, says by rest.Scoper whether its objects are in namespaces, and frees by Destroy what New has opened. A service that has no other
// resources needs no etcd.
type Custom struct {
	// Name is the plural, in lower case; NAME/SUBRESOURCE is a subresource.
	Name string
	// Versions serve the resource: those of the group if empty.
	Versions []string
	// Example is an empty object of the type that New's storage works with. Other versions are converted to it and from it. AddToScheme also
	// adds the list of such objects if the storage is a rest.Lister.
	Example runtime.Object
	// New makes the storage, once flags are parsed and before the service serves. An error ends the process.
	New func(*Environment) (rest.Storage, error)
	// LongRunning says that requests for the subresource last until the client or the service ends them, as [Objects] describes it. It
	// is for subresources only.
	LongRunning bool
}

// haveAll returns an error if a resource is to be served in a version that the group does not have.
func (g Group) haveAll(resource string, versions []string) error {
	for _, version := range versions {
		if !slices.Contains(g.Versions, version) {
			return fmt.Errorf("resource %s: version %s is not one of the group", resource, version)
		}
	}
	return nil
}

func (c Custom) addHub(t *types, g Group) error {
	if c.Example == nil || c.New == nil || c.Name == "" {
		return errors.New("a Custom resource needs Name, Example and New")
	}
	if c.LongRunning && !isSubresource(c.Name) {
		return fmt.Errorf("resource %s: LongRunning is for subresources", c.Name)
	}
	if err := g.haveAll(c.Name, c.Versions); err != nil {
		return err
	}
	return t.addHub(g, c.Example)
}

func (c Custom) name() string { return c.Name }

func (c Custom) served() []string { return c.Versions }

func (c Custom) stored() bool { return false }

func (c Custom) longRunning() []string {
	if !c.LongRunning {
		return nil
	}
	return []string{c.Name}
}

func (c Custom) storages(e *Environment, _ Group, _ generic.RESTOptionsGetter) (map[string]rest.Storage, error) {
	storage, err := c.New(e)
	if err != nil {
		return nil, fmt.Errorf("resource %s: %w", c.Name, err)
	}
	return map[string]rest.Storage{c.Name: storage}, nil
}

func newOf[T runtime.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

func (o Objects[T]) addHub(t *types, g Group) error {
	if o.Name == "" {
		return fmt.Errorf("a resource of %T has no Name", *new(T))
	}
	if reflect.TypeFor[T]().Kind() != reflect.Pointer {
		return fmt.Errorf("resource %s: %T is not a pointer to a type", o.Name, *new(T))
	}
	if err := g.haveAll(o.Name, o.Versions); err != nil {
		return err
	}
	if o.Status {
		for _, name := range []string{"TypeMeta", "ObjectMeta", "Spec", "Status"} {
			if _, ok := reflect.TypeFor[T]().Elem().FieldByName(name); !ok {
				return fmt.Errorf("resource %s: Status is set, and %T has no field %s", o.Name, *new(T), name)
			}
		}
	}
	for _, name := range o.LongRunning {
		if o.Subresources[name] == nil {
			return fmt.Errorf("resource %s: LongRunning names %q, which is not one of Subresources", o.Name, name)
		}
	}
	if err := t.canStore(g, newOf[T]()); err != nil {
		return fmt.Errorf("resource %s: %w", o.Name, err)
	}
	if err := t.addHub(g, newOf[T]()); err != nil {
		return fmt.Errorf("resource %s: %w", o.Name, err)
	}
	return o.addSelectableFields(t, g)
}

func (o Objects[T]) name() string { return o.Name }

func (o Objects[T]) served() []string { return o.Versions }

func (o Objects[T]) stored() bool { return o.Storage == nil }

func (o Objects[T]) longRunning() []string {
	var names []string
	for _, name := range o.LongRunning {
		names = append(names, o.Name+"/"+name)
	}
	return names
}

func (o Objects[T]) storages(e *Environment, g Group, getter generic.RESTOptionsGetter) (map[string]rest.Storage, error) {
	gvk, list, err := e.types.kindOf(g, newOf[T]())
	if err != nil {
		return nil, err
	}
	singular := o.Singular
	if singular == "" {
		singular = strings.ToLower(gvk.Kind)
	}
	resource := schema.GroupResource{Group: g.Name, Resource: o.Name}
	s := newStrategy(o, e.types.scheme, g)
	s.limits = newLimits(e.types.definitions(), newOf[T]())
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return newOf[T]() },
		NewListFunc:               func() runtime.Object { return list.DeepCopyObject() },
		PredicateFunc:             s.match,
		DefaultQualifiedResource:  resource,
		SingularQualifiedResource: schema.GroupResource{Group: g.Name, Resource: singular},
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		ResetFieldsStrategy:       s,
		TableConvertor:            newTable(resource, o.Columns),
	}
	if o.Storage != nil {
		getter = elsewhere{o.Storage, e.types, o.ClusterScoped, s.admitStored}
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter, AttrFunc: s.attributes}); err != nil {
		return nil, fmt.Errorf("resource %s: %w", o.Name, err)
	}
	all := map[string]rest.Storage{o.Name: &objects{Store: store, shortNames: o.ShortNames, categories: o.Categories}}
	if o.Status {
		status := *store
		update := statusStrategy[T]{s}
		status.UpdateStrategy, status.ResetFieldsStrategy = update, update
		all[o.Name+"/status"] = &statusREST{&status}
	}
	for name, make := range o.Subresources {
		storage, err := make(e)
		if err != nil {
			return all, fmt.Errorf("resource %s/%s: %w", o.Name, name, err) // the caller frees those that are open
		}
		all[o.Name+"/"+name] = storage
	}
	return all, nil
}
