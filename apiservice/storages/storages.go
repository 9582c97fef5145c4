// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storages is the contract between an API service and the place where it keeps the objects of a resource.
//
// A storage is a storage.Interface of k8s.io/apiserver, which etcd's storage implements, too. Everything above it is the code of Kubernetes
// and the same for each storage: validation, admission, server-side apply, field validation, dry run, finalizers, tables. An
// author chooses a storage by the field Storage of apiservice.Objects. Without that, objects are kept in etcd.
//
// The packages below this one are storages, and apiservice/storagetest tests whether a storage keeps the rules.
package storages

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// Resource is the resource whose objects a storage keeps.
type Resource struct {
	// GroupResource is the group and the plural.
	GroupResource schema.GroupResource
	// Prefix begins the keys of all objects. It begins and ends with "/". NAMESPACE/NAME follows, or NAME if the resource is cluster-scoped.
	Prefix string
	// ClusterScoped objects are in no namespace.
	ClusterScoped bool
	// Admit is called with an object that did not come through the API, such as one in a file that an editor has changed, and the object whose
	// place it takes, which may be nil. It sets metadata.generation, and returns what is wrong. Admit may be nil.
	Admit func(object, old runtime.Object) error
	// Codec encodes objects in the version in which they are stored, and decodes them to the type that validation and admission see.
	Codec runtime.Codec
	// New and NewList return an empty object and an empty list of the latter type.
	New, NewList func() runtime.Object
}

// Open makes the storage of a resource. A service calls it once for each resource, after Prepare and before it serves. An error ends the
// process. The function that it returns frees what the storage uses. The service calls that when it has stopped to serve.
type Open func(Resource) (storage.Interface, func(), error)
