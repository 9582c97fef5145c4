// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/base/migration"
)

// migrations answers requests by which objects move into the service and out of it. They are for paths that are no resources, so a user
// needs a right for these very paths (nonResourceURLs), and rights for resources, such as all verbs for all of them, are none.
type migrations struct {
	codecs serializer.CodecFactory
	// maxBytes bounds the body of a request.
	maxBytes int64
	// groups are the groups of the service.
	groups []string
	// movable are the resources whose objects can move.
	movable map[schema.GroupResource]*movable
}

// add adds a resource, with the storages that serve it, if its objects can move.
func (m *migrations) add(t *types, g Group, by map[string]rest.Storage, name string, versions []schema.GroupVersion) error {
	if !slices.Contains(m.groups, g.Name) {
		m.groups = append(m.groups, g.Name)
	}
	stored, ok := by[name].(*objects)
	if !ok {
		return nil
	}
	gated, ok := stored.Storage.Storage.(storages.Gated)
	if !ok {
		return nil
	}
	moves, err := newMovable(t, g, stored, gated, versions, by[name+"/status"] != nil)
	if err == nil {
		m.movable[moves.resource] = moves
	}
	return err
}

// install serves the paths, unless no objects of the service can move.
func (m *migrations) install(api *genericapiserver.GenericAPIServer) {
	if len(m.movable) > 0 {
		api.Handler.NonGoRestfulMux.HandlePrefix(migration.Root+"/", migration.Handler(m.codecs, m.answer))
	}
}

func (m *migrations) answer(w http.ResponseWriter, req *http.Request) (any, error) {
	group, name, ok := migration.Parse(req.URL.Path)
	if !ok || !slices.Contains(m.groups, group) {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, req.Method, schema.GroupResource{Group: group}, "",
			"the service does not serve this group", 0, true)
	}
	if name == "" {
		if req.Method != http.MethodGet {
			return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Group: group}, req.Method)
		}
		return m.describe(req.Context(), group)
	}
	resource := schema.GroupResource{Group: group, Resource: name}
	moves := m.movable[resource]
	if moves == nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, req.Method, resource, "",
			"the service does not serve this resource, or does not keep its objects in a storage with a gate", 0, true)
	}
	switch req.Method {
	case http.MethodGet:
		return moves.page(req.Context(), req.URL.Query())
	case http.MethodPost:
		var batch migration.Batch
		if err := migration.Read(w, req, m.maxBytes, &batch); err != nil {
			return nil, err
		}
		return moves.take(req.Context(), batch)
	case http.MethodPut:
		var gate migration.Gate
		if err := migration.Read(w, req, m.maxBytes, &gate); err != nil {
			return nil, err
		}
		return moves.setGate(req.Context(), gate)
	}
	return nil, apierrors.NewMethodNotSupported(resource, req.Method)
}

// describe returns what the service serves of a group.
func (m *migrations) describe(ctx context.Context, group string) (*migration.Group, error) {
	described := &migration.Group{Resources: []migration.Resource{}}
	for resource, moves := range m.movable {
		if resource.Group != group {
			continue
		}
		move, err := moves.gated.Gate(ctx)
		if err != nil {
			return nil, err
		}
		described.Resources = append(described.Resources, migration.Resource{
			Name: resource.Resource, Kind: moves.kind, Namespaced: moves.namespaced(), Versions: moves.versions, Status: moves.status, Move: move,
		})
	}
	slices.SortFunc(described.Resources, func(a, b migration.Resource) int { return strings.Compare(a.Name, b.Name) })
	return described, nil
}

// setGate closes or opens the gate of the resource, and then raises resourceVersions.
func (m *movable) setGate(ctx context.Context, gate migration.Gate) (_ *migration.Gate, err error) {
	for _, move := range []string{gate.From, gate.To} {
		if move == "" {
			continue
		}
		if err := migration.ValidateMove(move); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if err := m.gated.SetGate(ctx, gate.From, gate.To); err != nil {
		return nil, err
	}
	if gate.Above > 0 {
		gate.Floor, err = m.gated.Raise(ctx, gate.To, gate.Above)
	}
	return &gate, err
}
