// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// objects is a store with the names that discovery lists.
type objects struct {
	*genericregistry.Store
	shortNames, categories []string
}

var (
	_ rest.StandardStorage    = &objects{}
	_ rest.ShortNamesProvider = &objects{}
	_ rest.CategoriesProvider = &objects{}
)

// ShortNames implements rest.ShortNamesProvider.
func (o *objects) ShortNames() []string { return o.shortNames }

// Categories implements rest.CategoriesProvider.
func (o *objects) Categories() []string { return o.categories }

// statusREST is the subresource status. It neither creates nor deletes.
type statusREST struct{ store *genericregistry.Store }

var (
	_ rest.Patcher              = &statusREST{}
	_ rest.ResetFieldsStrategy  = &statusREST{}
	_ rest.TableConvertor       = &statusREST{}
	_ rest.Storage              = &statusREST{}
	_ rest.SingularNameProvider = &objects{}
)

// New implements rest.Storage.
func (r *statusREST) New() runtime.Object { return r.store.New() }

// Destroy implements rest.Storage. The store of the resource itself is destroyed by its own.
func (r *statusREST) Destroy() {}

// Get implements rest.Getter.
func (r *statusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update implements rest.Updater.
func (r *statusREST) Update(
	ctx context.Context, name string, object rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc,
	validateUpdate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, object, validateCreate, validateUpdate, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (r *statusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable implements rest.TableConvertor.
func (r *statusREST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, options)
}
