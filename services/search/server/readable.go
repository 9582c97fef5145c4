// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// Discovery documents of all clusters list only clusters in which the reader may read something. So no reader learns from them of
// other clusters.

// readableClusters returns the names of the clusters in which the reader of a request may read something, and whether these are all
// clusters.
func (h *Handler) readableClusters(ctx context.Context) (names []string, all bool, err error) {
	v, err := accessSetFrom(ctx)
	if err != nil {
		return nil, false, err
	}
	known, err := h.store.Clusters(ctx)
	if err != nil {
		return nil, false, asStatus(ctx, err)
	}
	for _, name := range known {
		if v.AllowsAnyIn(name) {
			names = append(names, name)
		}
	}
	return names, len(names) == len(known), nil
}

// readableKinds returns the resources of a cluster, or of all clusters that the reader may read in if the name is empty.
func (h *Handler) readableKinds(ctx context.Context, cluster string) ([]streams.Kind, error) {
	names := []string{cluster}
	if cluster == "" {
		some, all, err := h.readableClusters(ctx)
		switch {
		case err != nil:
			return nil, err
		case all:
			names = nil
		case len(some) == 0:
			return nil, nil
		default:
			names = some
		}
	}
	kinds, err := h.store.Kinds(ctx, names...)
	if err != nil {
		return nil, asStatus(ctx, err)
	}
	return kinds, nil
}

// readableSchemas returns the digests of the OpenAPI documents of a cluster, or of all clusters that the reader may read in if the name is
// empty. Of several clusters, the first one counts.
func (h *Handler) readableSchemas(ctx context.Context, cluster string) (map[string]string, error) {
	digests := map[string]string{}
	err := h.eachReadable(ctx, cluster, func(name string) error {
		of, err := h.store.SchemaDigests(ctx, name)
		for path, digest := range of {
			if _, has := digests[path]; !has {
				digests[path] = digest
			}
		}
		return err
	})
	return digests, err
}

// eachReadable calls a function with the name of a cluster, or with those of the clusters that the reader may read in if it is empty. If
// these are all, it calls it once, with the empty name.
func (h *Handler) eachReadable(ctx context.Context, cluster string, do func(name string) error) error {
	names := []string{cluster}
	if cluster == "" {
		some, all, err := h.readableClusters(ctx)
		if err != nil {
			return err
		}
		if !all {
			names = some
		}
	}
	for _, name := range names {
		if err := do(name); err != nil {
			return asStatus(ctx, err)
		}
	}
	return nil
}
