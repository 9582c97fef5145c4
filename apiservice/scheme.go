// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tripod-k8s/tripod/base/service"
)

// types are the types of a service.
type types struct {
	// versioned are those that the author has added. It is what documents list.
	versioned *runtime.Scheme
	// scheme also has the hub: the Go types that handlers, validation and admission work with, and that all versions are converted to and
	// from. k8s.io/apiserver calls it the internal version.
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	// storage are the versions in which objects are written to etcd.
	storage schema.GroupVersions
	// definitions are the schemas of the service, which refer to one another by their names.
	definitions func() map[string]common.OpenAPIDefinition
}

// Scheme returns the types with which the service works: those that AddToScheme adds, with their defaults and conversions. Besides, it has
// the type of each resource that all versions are converted to and from, in the version that k8s.io/apimachinery calls internal. It is for
// tests.
func (s Service) Scheme() (*runtime.Scheme, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	t, err := newTypes(&s)
	if err != nil {
		return nil, err
	}
	return t.scheme, nil
}

func newTypes(s *Service) (t *types, err error) {
	defer func() { // a scheme panics if two types have one kind
		if wrong := recover(); wrong != nil {
			t, err = nil, fmt.Errorf("AddToScheme: %v", wrong)
		}
	}()
	t = &types{versioned: runtime.NewScheme(), scheme: runtime.NewScheme()}
	t.definitions = sync.OnceValue(func() map[string]common.OpenAPIDefinition { return s.definitions(spec.MustCreateRef) })
	for _, add := range s.AddToScheme {
		if err := errors.Join(add(t.versioned), add(t.scheme)); err != nil {
			return nil, err
		}
	}
	for _, g := range s.Groups {
		t.storage = append(t.storage, schema.GroupVersion{Group: g.Name, Version: g.storageVersion()})
		var priority []schema.GroupVersion
		for _, version := range g.Versions {
			priority = append(priority, schema.GroupVersion{Group: g.Name, Version: version})
		}
		if err := t.scheme.SetVersionPriority(priority...); err != nil {
			return nil, err
		}
		for _, resource := range g.Resources {
			if err := resource.addHub(t, g); err != nil {
				return nil, fmt.Errorf("group %s: %w", g.Name, err)
			}
		}
	}
	service.AddUnversioned(t.scheme)
	t.codecs = serializer.NewCodecFactory(t.scheme)
	return t, nil
}

// kindOf returns the kind of an object of a group, and an empty list of such objects, or nil if AddToScheme adds no such list.
func (t *types) kindOf(g Group, object runtime.Object) (schema.GroupVersionKind, runtime.Object, error) {
	gvks, _, err := t.versioned.ObjectKinds(object)
	if err != nil {
		return schema.GroupVersionKind{}, nil, fmt.Errorf("AddToScheme does not add the type %T: %w", object, err)
	}
	gvk := gvks[0]
	if gvk.Group != g.Name {
		return gvk, nil, fmt.Errorf("the type %T is of group %q", object, gvk.Group)
	}
	list, err := t.versioned.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if runtime.IsNotRegisteredError(err) {
		return gvk, nil, nil
	}
	return gvk, list, err
}

// canStore returns an error if objects of a type cannot be kept in etcd.
func (t *types) canStore(g Group, object runtime.Object) error {
	gvk, list, err := t.kindOf(g, object)
	if err != nil {
		return err
	}
	if list == nil {
		return fmt.Errorf("AddToScheme does not add the list of %T", object)
	}
	if stored := (schema.GroupVersionKind{Group: g.Name, Version: g.storageVersion(), Kind: gvk.Kind}); !t.versioned.Recognizes(stored) {
		return fmt.Errorf("AddToScheme adds no %s in version %s, in which the group is stored", gvk.Kind, stored.Version)
	}
	return nil
}

// addHub makes the type of an object that of the hub.
func (t *types) addHub(g Group, object runtime.Object) error {
	gvk, list, err := t.kindOf(g, object)
	if err != nil {
		return err
	}
	hub := []runtime.Object{object}
	if list != nil {
		hub = append(hub, list)
	}
	if err := t.validateCopies(g, gvk.Kind); err != nil {
		return err
	}
	if gvk.Version != runtime.APIVersionInternal {
		t.scheme.AddKnownTypes(schema.GroupVersion{Group: g.Name, Version: runtime.APIVersionInternal}, hub...)
	}
	if list == nil {
		return nil
	}
	return t.addListConversions(g, gvk.Kind, list)
}

// validateCopies returns an error if copies of a kind in any version, or of its list, are of another type. A type without deep copies
// compiles if it embeds one that has them.
func (t *types) validateCopies(g Group, kind string) error {
	for gvk := range t.versioned.AllKnownTypes() {
		if gvk.Group != g.Name || gvk.Kind != kind && gvk.Kind != kind+"List" {
			continue
		}
		object, err := t.versioned.New(gvk)
		if err != nil {
			return err
		}
		if reflect.TypeOf(object.DeepCopyObject()) != reflect.TypeOf(object) {
			return fmt.Errorf("the type %T has no DeepCopyObject of its own: generate it with deepcopy-gen", object)
		}
	}
	return nil
}

// addListConversions converts lists of other versions to lists of the hub and back, by their items.
func (t *types) addListConversions(g Group, kind string, hub runtime.Object) error {
	for _, version := range g.Versions {
		list, err := t.versioned.New(schema.GroupVersionKind{Group: g.Name, Version: version, Kind: kind + "List"})
		if runtime.IsNotRegisteredError(err) || err == nil && reflect.TypeOf(list) == reflect.TypeOf(hub) {
			continue
		}
		if err != nil {
			return err
		}
		for _, pair := range [][2]any{{list, hub}, {hub, list}} {
			if err := t.scheme.AddConversionFunc(pair[0], pair[1], convertList); err != nil {
				return err
			}
		}
	}
	return nil
}

// convertList is a conversion.ConversionFunc for lists, which are structs with TypeMeta, ListMeta and Items.
func convertList(from, to any, scope conversion.Scope) error {
	in, out := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	out.FieldByName("ListMeta").Set(in.FieldByName("ListMeta"))
	items := in.FieldByName("Items")
	converted := reflect.MakeSlice(out.FieldByName("Items").Type(), items.Len(), items.Len())
	for i := range items.Len() {
		if err := scope.Convert(items.Index(i).Addr().Interface(), converted.Index(i).Addr().Interface()); err != nil {
			return err
		}
	}
	if !items.IsNil() {
		out.FieldByName("Items").Set(converted)
	}
	return nil
}

// AddConversion adds the conversions between two Go types for one kind, both ways. Lists of the kind follow by themselves.
func AddConversion[A, B any](s *runtime.Scheme, there func(*A, *B) error, back func(*B, *A) error) error {
	return errors.Join(
		s.AddConversionFunc((*A)(nil), (*B)(nil), func(a, b any, _ conversion.Scope) error { return there(a.(*A), b.(*B)) }),
		s.AddConversionFunc((*B)(nil), (*A)(nil), func(b, a any, _ conversion.Scope) error { return back(b.(*B), a.(*A)) }),
	)
}

// AddDefaults adds what fills in the defaults of a version of a kind.
func AddDefaults[P interface {
	*T
	runtime.Object
}, T any](s *runtime.Scheme, setDefaults func(P)) {
	s.AddTypeDefaultingFunc(P(new(T)), func(object any) { setDefaults(object.(P)) })
}
