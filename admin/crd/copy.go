// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/migration"
)

// source has objects.
type source interface {
	// each calls a function for each object of a definition, in the state of one resourceVersion.
	each(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, do func(data json.RawMessage) error) error
}

// listed are the objects that clients get of extensions.
type listed struct{ *checker }

func (l *listed) each(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, do func(json.RawMessage) error) error {
	version, err := versionOf(definition)
	if err != nil {
		return err
	}
	of := l.objects.Resource(schema.GroupVersionResource{Group: l.Group, Version: version, Resource: definition.Spec.Names.Plural})
	list := func(token string) (*unstructured.UnstructuredList, error) {
		list, err := of.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: token})
		if err != nil {
			err = fmt.Errorf("cannot list %s: %w", definition.Name, err)
		}
		return list, err
	}
	return eachPage(list, func(_ string, list *unstructured.UnstructuredList) (string, error) {
		for i := range list.Items {
			data, err := list.Items[i].MarshalJSON()
			if err == nil {
				err = do(data)
			}
			if err != nil {
				return "", err
			}
		}
		return list.GetContinue(), nil
	})
}

// eachPage calls a function with each page of a list. It returns the token of the next page, or "".
func eachPage[T any](get func(token string) (T, error), do func(token string, page T) (next string, err error)) error {
	for token, expired := "", false; ; {
		page, err := get(token)
		if again := resumed(err); again != "" && !expired { // twice without a page, a list has no end
			token, expired = again, true
			continue
		}
		expired = false
		if err != nil {
			return err
		}
		if token, err = do(token, page); err != nil || token == "" {
			return err
		}
	}
}

// resumed returns where a list goes on if etcd has compacted the revision of its pages, or "". The pages that follow are of a later one.
// While writes go on, what they miss is copied afterwards. While writes are paused, all revisions have the same objects.
func resumed(err error) (next string) {
	var status apierrors.APIStatus
	if apierrors.IsResourceExpired(err) && errors.As(err, &status) {
		next = status.Status().ListMeta.Continue
	}
	return next
}

// owner is a server with the paths of package migration.
type owner struct {
	*checker
	name string
}

// ask sends a request.
func (o *owner) ask(
	ctx context.Context, verb string, definition *apiextensionsv1.CustomResourceDefinition, body, answer any, parameters url.Values,
) error {
	request := o.service.Verb(verb).AbsPath(migration.PathOf(o.Group, definition.Spec.Names.Plural)).Param("service", o.name)
	for name := range parameters {
		request.Param(name, parameters.Get(name))
	}
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		request.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data)
	}
	result := request.Do(ctx)
	data, err := result.Raw()
	if err != nil {
		err = result.Error() // with the Status of the answer
	}
	switch {
	case apierrors.IsForbidden(err):
		return forbidden(o.Group, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("another move of %s has begun: %w", definition.Name, err)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%s cannot take over an object: %w", o.name, err)
	case err != nil:
		return fmt.Errorf("%s does not answer about %s: %w", o.name, definition.Name, err)
	}
	return json.Unmarshal(data, answer)
}

func (o *owner) page(
	ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, next string, limit int,
) (*migration.Page, error) {
	version, err := versionOf(definition)
	if err != nil {
		return nil, err
	}
	page := &migration.Page{}
	return page, o.ask(ctx, http.MethodGet, definition, nil, page, url.Values{
		migration.Version: {version}, migration.Limit: {strconv.Itoa(limit)}, migration.Continue: {next},
	})
}

func (o *owner) each(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, do func(json.RawMessage) error) error {
	get := func(token string) (*migration.Page, error) { return o.page(ctx, definition, token, pageSize) }
	return eachPage(get, func(token string, page *migration.Page) (string, error) {
		for _, data := range page.Objects {
			if err := do(data); err != nil {
				return "", err
			}
		}
		if page.Continue != "" && (page.Continue == token || len(page.Objects) == 0 || len(page.Objects) > pageSize) {
			return "", fmt.Errorf("%s lists %s without an end", o.name, definition.Name)
		}
		return page.Continue, nil
	})
}

// version returns the latest resourceVersion.
func (o *owner) version(ctx context.Context, definitions []*apiextensionsv1.CustomResourceDefinition) (latest int64, err error) {
	for _, definition := range definitions {
		page, err := o.page(ctx, definition, "", 1)
		if err != nil {
			return 0, err
		}
		version, err := strconv.ParseInt(page.ResourceVersion, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s has the resourceVersion %q, which is no number", o.name, page.ResourceVersion)
		}
		latest = max(latest, version)
	}
	return latest, nil
}

// setGate changes a gate, and gets the answer.
func (o *owner) setGate(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, gate *migration.Gate) error {
	return o.ask(ctx, http.MethodPut, definition, *gate, gate, nil)
}

// send sends a batch.
func (o *owner) send(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, batch migration.Batch) error {
	if len(batch.Objects)+len(batch.Gone) == 0 {
		return nil
	}
	var taken migration.Taken
	if err := o.ask(ctx, http.MethodPost, definition, batch, &taken, nil); err != nil {
		return err
	}
	if taken.Objects != len(batch.Objects) || taken.Gone != len(batch.Gone) {
		return fmt.Errorf("%s has not taken all objects of a batch", o.name)
	}
	return nil
}

// state is what is compared of an object.
type state struct {
	uid types.UID
	// sum is the SHA-256 of the object.
	sum [sha256.Size]byte
}

// stateOf returns the name and the state of an object.
func stateOf(data json.RawMessage) (cache.ObjectName, state, error) {
	object := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &object.Object); err != nil {
		return cache.ObjectName{}, state{}, err
	}
	canonical, err := json.Marshal(migration.Canonical(object.Object))
	return cache.MetaObjectToName(object), state{object.GetUID(), sha256.Sum256(canonical)}, err
}

// copied is what was copied of a definition.
type copied struct {
	// there are the objects of the target, and bytes is the size of those of the source.
	there map[cache.ObjectName]state
	bytes int64
}

// checksum returns the SHA-256 of all objects.
func checksum(objects map[cache.ObjectName]state) string {
	sum := sha256.New()
	names := slices.SortedFunc(maps.Keys(objects), func(a, b cache.ObjectName) int {
		return bytes.Compare([]byte(a.String()), []byte(b.String()))
	})
	for _, name := range names {
		of := objects[name].sum
		fmt.Fprintf(sum, "%s %x\n", name, of[:])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// read returns the objects that an owner has.
func read(ctx context.Context, of source, definition *apiextensionsv1.CustomResourceDefinition) (map[cache.ObjectName]state, error) {
	objects := map[cache.ObjectName]state{}
	return objects, of.each(ctx, definition, func(data json.RawMessage) error {
		name, is, err := stateOf(data)
		objects[name] = is
		return err
	})
}

// copyAll makes the objects of the target those of the source.
func (m *mover) copyAll(ctx context.Context, from source, to *owner) error {
	for _, definition := range m.definitions {
		if err := m.copy(ctx, definition, from, to); err != nil {
			return err
		}
	}
	return nil
}

func (m *mover) copy(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, from source, to *owner) (err error) {
	c := m.copies[definition.Name]
	if c == nil {
		c = &copied{}
		if c.there, err = read(ctx, to, definition); err != nil {
			return err
		}
		m.copies[definition.Name] = c
	}
	c.bytes = 0
	seen, batch, size, sent := map[cache.ObjectName]state{}, migration.Batch{Move: m.name}, 0, 0
	flush := func() error {
		err := to.send(ctx, definition, batch)
		sent += len(batch.Objects) + len(batch.Gone)
		batch, size = migration.Batch{Move: m.name}, 0
		return err
	}
	err = from.each(ctx, definition, func(data json.RawMessage) error {
		name, is, err := stateOf(data)
		if err != nil {
			return err
		}
		seen[name], c.bytes = is, c.bytes+int64(len(data))
		if c.there[name] == is {
			return nil
		}
		if size+len(data) > batchBytes || len(batch.Objects) == pageSize {
			if err := flush(); err != nil {
				return err
			}
			m.Progress(fmt.Sprintf("copied %d objects of %s", sent, definition.Name))
		}
		batch.Objects, size = append(batch.Objects, data), size+len(data)
		return nil
	})
	if err != nil {
		return err
	}
	for name, is := range c.there {
		if _, has := seen[name]; has {
			continue
		}
		if len(batch.Objects)+len(batch.Gone) >= pageSize {
			if err := flush(); err != nil {
				return err
			}
		}
		batch.Gone = append(batch.Gone, migration.Gone{Namespace: name.Namespace, Name: name.Name, UID: is.uid})
	}
	if err := flush(); err != nil {
		return err
	}
	c.there = seen
	m.Progress(fmt.Sprintf("%s: %d objects, of which %d were written", definition.Name, len(seen), sent))
	return nil
}

// compareAll compares what was read last from the source with what the target has.
func (m *mover) compareAll(ctx context.Context, to *owner) error {
	m.Progress("comparing both")
	m.result.Resources = []Resource{}
	for _, definition := range m.definitions {
		there, err := read(ctx, to, definition)
		if err != nil {
			return err
		}
		c := m.copies[definition.Name]
		want, got := checksum(c.there), checksum(there)
		if want != got {
			return fmt.Errorf("%s differs: %d objects with checksum %s, and %d with %s in %s: nothing was moved",
				definition.Name, len(c.there), want, len(there), got, to.name)
		}
		m.result.Resources = append(m.result.Resources, Resource{
			Name: definition.Name, Objects: int64(len(there)), Bytes: c.bytes, Checksum: got,
		})
	}
	return nil
}

// tryBack asks extensions about each object of the service.
func (m *mover) tryBack(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) (Resource, error) {
	result := Resource{Name: definition.Name}
	err := result.try(ctx, m.service, definition, func(objects []json.RawMessage) error {
		return m.extensions.send(ctx, definition, migration.Batch{Objects: objects, DryRun: true})
	})
	return result, err
}
