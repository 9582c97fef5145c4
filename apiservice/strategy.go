// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy is what k8s.io/apiserver asks about objects of a resource.
type strategy[T runtime.Object] struct {
	runtime.ObjectTyper
	names.NameGenerator
	Objects[T]
	group  Group
	limits *limits
}

var (
	_ rest.RESTCreateStrategy  = strategy[*metav1.Status]{}
	_ rest.RESTUpdateStrategy  = strategy[*metav1.Status]{}
	_ rest.ResetFieldsStrategy = strategy[*metav1.Status]{}
)

func newStrategy[T runtime.Object](o Objects[T], typer runtime.ObjectTyper, g Group) strategy[T] {
	return strategy[T]{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, Objects: o, group: g}
}

// NamespaceScoped implements rest.RESTCreateStrategy.
func (s strategy[T]) NamespaceScoped() bool { return !s.ClusterScoped }

// Canonicalize implements rest.RESTCreateStrategy.
func (s strategy[T]) Canonicalize(runtime.Object) {}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (s strategy[T]) WarningsOnCreate(ctx context.Context, object runtime.Object) []string {
	if s.Warnings == nil {
		return nil
	}
	return s.Warnings(ctx, object.(T), *new(T))
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (s strategy[T]) WarningsOnUpdate(ctx context.Context, object, old runtime.Object) []string {
	if s.Warnings == nil {
		return nil
	}
	return s.Warnings(ctx, object.(T), old.(T))
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s strategy[T]) PrepareForCreate(ctx context.Context, object runtime.Object) {
	if s.Status {
		part(object, statusField).SetZero()
		setGeneration(object, 1)
	}
	if s.Prepare != nil {
		s.Prepare(ctx, object.(T), *new(T))
	}
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s strategy[T]) PrepareForUpdate(ctx context.Context, object, old runtime.Object) {
	if s.Status {
		part(object, statusField).Set(part(old.DeepCopyObject(), statusField))
	}
	if s.Prepare != nil {
		s.Prepare(ctx, object.(T), old.(T))
	}
	if s.Status {
		generation := generationOf(old)
		if !sameBesidesMetadata(object, old) {
			generation++
		}
		setGeneration(object, generation)
	}
}

// Validate implements rest.RESTCreateStrategy.
func (s strategy[T]) Validate(ctx context.Context, object runtime.Object) field.ErrorList {
	return append(s.limits.validate(object), s.validateByAuthor(ctx, object)...)
}

func (s strategy[T]) validateByAuthor(ctx context.Context, object runtime.Object) field.ErrorList {
	if s.Objects.Validate == nil {
		return nil
	}
	return s.Objects.Validate(ctx, object.(T))
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s strategy[T]) ValidateUpdate(ctx context.Context, object, old runtime.Object) field.ErrorList {
	errs := s.limits.validateUpdate(object, old)
	if s.Objects.ValidateUpdate == nil {
		return append(errs, s.validateByAuthor(ctx, object)...)
	}
	return append(errs, s.Objects.ValidateUpdate(ctx, object.(T), old.(T))...)
}

// admitStored is an Admit of [storages.Resource].
func (s strategy[T]) admitStored(object, old runtime.Object) error {
	path, m := field.NewPath("metadata"), mustAccess(object)
	if old == nil {
		if s.Status && m.GetGeneration() < 1 {
			m.SetGeneration(1)
		}
		errs := validation.ValidateObjectMetaAccessor(m, !s.ClusterScoped, validateName, path)
		return append(errs, s.Validate(context.Background(), object)...).ToAggregate()
	}
	generation := generationOf(old)
	if s.Status {
		if part(object, statusField).IsZero() { // only a controller has it
			part(object, statusField).Set(part(old.DeepCopyObject(), statusField))
		}
		if !sameSpec(object, old) {
			generation++
		}
	}
	m.SetGeneration(generation)
	m.SetResourceVersion("1") // an update needs one, and the storage gives the object another
	errs := validation.ValidateObjectMetaAccessor(m, !s.ClusterScoped, validateName, path)
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(m, mustAccess(old), path)...)
	return append(errs, s.ValidateUpdate(context.Background(), object, old)...).ToAggregate()
}

// validateName is what Kubernetes asks of names that nothing else limits.
func validateName(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s strategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !s.Status {
		return nil
	}
	return s.inAllVersions("status")
}

func (s strategy[T]) inAllVersions(paths ...any) map[fieldpath.APIVersion]*fieldpath.Set {
	sets := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, version := range s.group.Versions {
		set := fieldpath.NewSet()
		for _, path := range paths {
			set.Insert(fieldpath.MakePathOrDie(path))
		}
		sets[fieldpath.APIVersion(s.group.Name+"/"+version)] = set
	}
	return sets
}

// attributes are what selectors select by.
func (s strategy[T]) attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, nil, err
	}
	selectable := fields.Set{"metadata.name": accessor.GetName()}
	if !s.ClusterScoped {
		selectable["metadata.namespace"] = accessor.GetNamespace()
	}
	s.selectable(object, selectable)
	return accessor.GetLabels(), selectable, nil
}

func (s strategy[T]) match(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: s.attributes}
}

// statusStrategy changes nothing but the status.
type statusStrategy[T runtime.Object] struct{ strategy[T] }

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s statusStrategy[T]) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	status := reflect.New(part(object, statusField).Type()).Elem()
	status.Set(part(object, statusField))
	managed, version := mustAccess(object).GetManagedFields(), mustAccess(object).GetResourceVersion()
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(old.DeepCopyObject()).Elem())
	part(object, statusField).Set(status)
	mustAccess(object).SetManagedFields(managed)
	mustAccess(object).SetResourceVersion(version)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy. They are about what users write, and not about the status.
func (s statusStrategy[T]) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s statusStrategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.inAllVersions("spec", "metadata")
}

const statusField = "Status"

// part returns a field of an object.
func part(object runtime.Object, name string) reflect.Value {
	return reflect.ValueOf(object).Elem().FieldByName(name)
}

func mustAccess(object runtime.Object) metav1.Object {
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(err) // k8s.io/apiserver has decoded its metadata
	}
	return accessor
}

func generationOf(object runtime.Object) int64 { return mustAccess(object).GetGeneration() }

func setGeneration(object runtime.Object, generation int64) {
	mustAccess(object).SetGeneration(generation)
}

// sameSpec reports whether two objects differ only in their metadata and their status.
func sameSpec(a, b runtime.Object) bool {
	a, b = a.DeepCopyObject(), b.DeepCopyObject()
	part(a, statusField).SetZero()
	part(b, statusField).SetZero()
	return sameBesidesMetadata(a, b)
}

// sameBesidesMetadata reports whether two objects differ only in their metadata.
func sameBesidesMetadata(a, b runtime.Object) bool {
	a, b = a.DeepCopyObject(), b.DeepCopyObject()
	for _, object := range []runtime.Object{a, b} {
		part(object, "ObjectMeta").SetZero()
		part(object, "TypeMeta").SetZero()
	}
	return equality.Semantic.DeepEqual(a, b)
}
