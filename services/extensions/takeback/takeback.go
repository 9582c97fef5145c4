// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeback takes custom resources back that an API service had, at the paths of package migration. Extensions writes them as it
// stores those of clients, encrypted if it encrypts them, but without admission, and with their UIDs. It does so only for the move that the
// record of their group names ([placement.Record]). A right for all resources is none for these paths.
package takeback

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	apihelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/base/storage/placement"
)

// Server answers the requests of a move.
type Server struct {
	// Groups say which move may write.
	Groups *placement.Groups
	// Options says how custom resources are stored.
	Options generic.RESTOptionsGetter
	// Definitions reads CustomResourceDefinitions of all groups.
	Definitions clientset.Interface
	// Codecs encode errors.
	Codecs runtime.NegotiatedSerializer
	// MaxBytes bounds the body of a request.
	MaxBytes int64
}

// Handler returns what serves the paths.
func (s *Server) Handler() http.Handler { return migration.Handler(s.Codecs, s.answer) }

func (s *Server) answer(w http.ResponseWriter, req *http.Request) (any, error) {
	group, name, ok := migration.Parse(req.URL.Path)
	resource := schema.GroupResource{Group: group, Resource: name}
	if !ok || name == "" {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, req.Method, resource, "", "extensions is no API service", 0, true)
	}
	definition, err := s.Definitions.ApiextensionsV1().CustomResourceDefinitions().Get(req.Context(), resource.String(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if named := definition.Spec; named.Group != group || named.Names.Plural != name {
		// books.b in example.com has the name of books in b.example.com, for which the user may have no right.
		return nil, apierrors.NewNotFound(resource, "")
	}
	switch req.Method {
	case http.MethodGet:
		return s.page(req.Context(), definition, req.URL.Query())
	case http.MethodPost:
		var batch migration.Batch
		if err := migration.Read(w, req, s.MaxBytes, &batch); err != nil {
			return nil, err
		}
		return s.take(req.Context(), definition, batch)
	}
	return nil, apierrors.NewMethodNotSupported(resource, req.Method)
}

// stored is the storage of the objects of a definition.
type stored struct {
	storage.Interface
	prefix  string
	destroy func()
}

// open returns a storage that raw makes.
func (s *Server) open(definition *apiextensionsv1.CustomResourceDefinition, raw etcdclient.NewRawStorage) (*stored, error) {
	resource := schema.GroupResource{Group: definition.Spec.Group, Resource: definition.Spec.Names.Plural}
	options, err := s.Options.GetRESTOptions(resource, nil)
	if err != nil {
		return nil, err
	}
	prefix := "/" + options.ResourcePrefix
	made, destroy, err := raw(options.StorageConfig, newObject, newList, prefix)
	if err != nil {
		return nil, err
	}
	return &stored{made, prefix, destroy}, nil
}

func newObject() runtime.Object { return &unstructured.Unstructured{} }
func newList() runtime.Object   { return &unstructured.UnstructuredList{} }

func (s *stored) keyOf(namespace, name string) string {
	if namespace == "" {
		return s.prefix + "/" + name
	}
	return s.prefix + "/" + namespace + "/" + name
}

// page returns a page of what the etcd of extensions has, in the version that the request asks for.
func (s *Server) page(
	ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, query url.Values,
) (*migration.Page, error) {
	selected := storage.Everything
	var err error
	if selected.Limit, err = migration.LimitOf(query); err != nil {
		return nil, err
	}
	selected.Continue = query.Get(migration.Continue)
	from, err := s.open(definition, s.Groups.Clients.NewStorage)
	if err != nil {
		return nil, err
	}
	defer from.destroy()
	list := &unstructured.UnstructuredList{}
	if err := from.GetList(ctx, from.prefix, storage.ListOptions{Recursive: true, Predicate: selected}, list); err != nil {
		return nil, err
	}
	page := &migration.Page{ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), Objects: []json.RawMessage{}}
	version := schema.GroupVersion{Group: definition.Spec.Group, Version: query.Get(migration.Version)}.String()
	for i := range list.Items {
		list.Items[i].SetAPIVersion(version) // without a webhook, that is all that versions differ in
		data, err := list.Items[i].MarshalJSON()
		if err != nil {
			return nil, err
		}
		page.Objects = append(page.Objects, data)
	}
	return page, nil
}

// take stores the objects of a batch. If one of them cannot be taken back, those before it are, unless it is a dry run.
func (s *Server) take(
	ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, batch migration.Batch,
) (*migration.Taken, error) {
	if err := batch.Validate(); err != nil {
		return nil, err
	}
	version, err := apihelpers.GetCRDStorageVersion(definition)
	if err != nil {
		return nil, err
	}
	accepts, err := newAcceptor(definition, version)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, data := range batch.Objects {
		object, err := accepts.accept(data)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	if batch.DryRun {
		return &migration.Taken{Objects: len(objects), Gone: len(batch.Gone)}, nil
	}
	raw, err := s.Groups.Returning(ctx, definition.Spec.Group, batch.Move)
	if err != nil {
		return nil, err
	}
	to, err := s.open(definition, raw)
	if err != nil {
		return nil, err
	}
	defer to.destroy()
	return to.take(ctx, objects, batch.Gone)
}

func (s *stored) take(ctx context.Context, objects []*unstructured.Unstructured, gone []migration.Gone) (*migration.Taken, error) {
	taken := &migration.Taken{}
	for _, object := range objects {
		write := storage.SimpleUpdate(func(runtime.Object) (runtime.Object, error) { return object.DeepCopy(), nil })
		key := s.keyOf(object.GetNamespace(), object.GetName())
		if err := s.GuaranteedUpdate(ctx, key, newObject(), true, nil, write, nil); err != nil {
			return nil, fmt.Errorf("%s: %w", object.GetName(), err)
		}
		taken.Objects++
	}
	for _, each := range gone {
		only := &storage.Preconditions{UID: &each.UID}
		err := s.Delete(ctx, s.keyOf(each.Namespace, each.Name), newObject(), only, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		if err != nil && !storage.IsNotFound(err) && !storage.IsInvalidObj(err) {
			return nil, fmt.Errorf("%s: %w", each.Name, err)
		}
		taken.Gone++
	}
	return taken, nil
}
