// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/base/migration"
)

// movable is a resource whose objects can move.
type movable struct {
	*objects
	types    *types
	resource schema.GroupResource
	kind     string
	versions []string
	status   bool
	gated    storages.Gated
	// taking has room for one value: a batch waits for the one before it, so that batches take the memory of one.
	taking chan struct{}
}

// newMovable returns a resource whose storage has a gate.
func newMovable(
	t *types, g Group, o *objects, gated storages.Gated, versions []schema.GroupVersion, status bool,
) (*movable, error) {
	kind, _, err := t.kindOf(g, o.New())
	m := &movable{
		objects: o, types: t, resource: o.DefaultQualifiedResource, kind: kind.Kind, status: status, gated: gated,
		taking: make(chan struct{}, 1),
	}
	for _, gv := range versions {
		m.versions = append(m.versions, gv.Version)
	}
	return m, err
}

func (m *movable) namespaced() bool { return m.CreateStrategy.NamespaceScoped() }

// encoder encodes objects of the hub as JSON of a version.
func (m *movable) encoder(version string) (runtime.Encoder, error) {
	info, ok := runtime.SerializerInfoForMediaType(m.types.codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok || !slices.Contains(m.versions, version) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s is served in %s, and not in %q", m.resource, strings.Join(m.versions, ", "), version))
	}
	return m.types.codecs.EncoderForVersion(info.Serializer, schema.GroupVersion{Group: m.resource.Group, Version: version}), nil
}

// page returns a page of the objects.
func (m *movable) page(ctx context.Context, query url.Values) (*migration.Page, error) {
	encoder, err := m.encoder(query.Get(migration.Version))
	if err != nil {
		return nil, err
	}
	selected := storage.Everything
	if selected.Limit, err = migration.LimitOf(query); err != nil {
		return nil, err
	}
	selected.Continue = query.Get(migration.Continue)
	list := m.NewList()
	if err := m.gated.GetList(ctx, m.KeyRootFunc(ctx), storage.ListOptions{Recursive: true, Predicate: selected}, list); err != nil {
		return nil, err
	}
	of, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	page := &migration.Page{ResourceVersion: of.GetResourceVersion(), Continue: of.GetContinue(), Objects: []json.RawMessage{}}
	return page, meta.EachListItem(list, func(object runtime.Object) error {
		data, err := runtime.Encode(encoder, object)
		page.Objects = append(page.Objects, data)
		return err
	})
}

// take has the storage keep the objects of a batch. If one of them cannot be taken over, those before it are, unless it is a dry run.
func (m *movable) take(ctx context.Context, batch migration.Batch) (*migration.Taken, error) {
	if err := batch.Validate(); err != nil {
		return nil, err
	}
	select {
	case m.taking <- struct{}{}:
		defer func() { <-m.taking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, taken := storages.ByMove(ctx, batch.Move), &migration.Taken{}
	for _, data := range batch.Objects {
		object, err := m.accept(ctx, data)
		if err == nil && !batch.DryRun {
			err = m.put(ctx, object)
		}
		if err != nil {
			return nil, err
		}
		taken.Objects++
	}
	for _, gone := range batch.Gone {
		if !batch.DryRun {
			if err := m.remove(ctx, gone); err != nil {
				return nil, err
			}
		}
		taken.Gone++
	}
	return taken, nil
}

// accept returns an object of a batch, or an error if the service would not return it as it is, or would not let clients write it.
func (m *movable) accept(ctx context.Context, data json.RawMessage) (runtime.Object, error) {
	var given unstructured.Unstructured
	if err := utiljson.Unmarshal(data, &given.Object); err != nil {
		return nil, apierrors.NewBadRequest("an object of the batch is no JSON object: " + err.Error())
	}
	version, kind, name := given.GetAPIVersion(), given.GetKind(), cache.MetaObjectToName(&given).String()
	gv, err := schema.ParseGroupVersion(version)
	if err != nil || gv.Group != m.resource.Group || kind != m.kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s is a %s of %q, and no %s of %s", name, kind, version, m.kind, m.resource.Group))
	}
	encoder, err := m.encoder(gv.Version)
	if err != nil {
		return nil, err
	}
	hub := schema.GroupVersion{Group: m.resource.Group, Version: runtime.APIVersionInternal}
	object, err := runtime.Decode(m.types.codecs.UniversalDecoder(hub), data)
	if err != nil {
		return nil, m.refused(name, "", "cannot be decoded: "+err.Error())
	}
	returned, err := m.roundTrip(object, encoder)
	if err != nil {
		return nil, m.refused(name, "", err.Error())
	}
	if found := migration.FirstDifference(given.Object, returned); found != nil {
		return nil, m.refused(name, found.Field, found.String())
	}
	if err := m.validate(ctx, object); err != nil {
		return nil, m.refused(name, err.Field, err.Error())
	}
	return object, nil
}

// roundTrip returns an object as clients would get it once it is stored.
func (m *movable) roundTrip(object runtime.Object, encoder runtime.Encoder) (map[string]any, error) {
	codec := m.types.codecs.LegacyCodec(m.types.storage...)
	stored, err := runtime.Encode(codec, object.DeepCopyObject())
	if err != nil {
		return nil, fmt.Errorf("cannot be stored: %w", err)
	}
	read, err := runtime.Decode(codec, stored)
	if err != nil {
		return nil, fmt.Errorf("cannot be read again: %w", err)
	}
	data, err := runtime.Encode(encoder, read)
	if err != nil {
		return nil, fmt.Errorf("cannot be encoded: %w", err)
	}
	var returned map[string]any
	return returned, utiljson.Unmarshal(data, &returned)
}

// validate returns the first thing that is wrong with an object. Clients could not write an object that is not valid, not even its status.
func (m *movable) validate(ctx context.Context, object runtime.Object) *field.Error {
	metadata, path := mustAccess(object), field.NewPath("metadata")
	var errs field.ErrorList
	if metadata.GetUID() == "" {
		errs = append(errs, field.Required(path.Child("uid"), "an object that moves keeps its UID"))
	}
	if created := metadata.GetCreationTimestamp(); created.IsZero() {
		errs = append(errs, field.Required(path.Child("creationTimestamp"), "an object that moves keeps it"))
	}
	errs = append(errs, validation.ValidateObjectMetaAccessor(metadata, m.namespaced(), validateName, path)...)
	errs = append(errs, m.CreateStrategy.Validate(request.WithNamespace(ctx, metadata.GetNamespace()), object)...)
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}

// put makes an object that of its name.
func (m *movable) put(ctx context.Context, object runtime.Object) error {
	metadata := mustAccess(object)
	key, err := m.KeyFunc(request.WithNamespace(ctx, metadata.GetNamespace()), metadata.GetName())
	if err != nil {
		return err
	}
	metadata.SetResourceVersion("")
	return m.gated.GuaranteedUpdate(ctx, key, m.New(), true, nil,
		storage.SimpleUpdate(func(runtime.Object) (runtime.Object, error) { return object.DeepCopyObject(), nil }), nil)
}

// remove deletes an object at once, unless another one has its name.
func (m *movable) remove(ctx context.Context, gone migration.Gone) error {
	key, err := m.KeyFunc(request.WithNamespace(ctx, gone.Namespace), gone.Name)
	if err != nil {
		return err
	}
	only := &storage.Preconditions{UID: &gone.UID}
	err = m.gated.Delete(ctx, key, m.New(), only, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if storage.IsNotFound(err) || storage.IsInvalidObj(err) {
		return nil
	}
	return err
}

// refused is the error about an object that the service cannot take over.
func (m *movable) refused(name, path, why string) error {
	return migration.Refused(m.resource, m.kind, name, path, why)
}
