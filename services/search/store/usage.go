// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// Room says which changes of a batch the store takes.
type Room int

const (
	// RoomForAll takes all changes.
	RoomForAll Room = iota
	// RoomForKnown leaves out objects that the store does not have.
	RoomForKnown
	// RoomForNothing also removes objects that have changed, so that no former state is served as the current one.
	RoomForNothing
)

// CountObjects returns how many objects a cluster has here.
func (s *Store) CountObjects(ctx context.Context, cluster string) (objects int64, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		objects, err = database.Value[int64](ctx, t, t.SQL("SELECT COALESCE(SUM(s.objects), 0) FROM streams s JOIN clusters c ON c.id = "+
			"s.cluster_id WHERE c.name = ?", cluster))
		return err
	})
	return objects, err
}

// Size returns how many bytes the objects and the documents of a cluster have in the database. It has to look at each of them.
func (s *Store) Size(ctx context.Context, cluster string) (size int64, err error) {
	err = s.db.Reading(ctx, func(t *database.Tx) error {
		size, err = database.Value[int64](ctx, t, t.SQL("SELECT COALESCE(SUM("+t.SizeOf("o.object")+"), 0) FROM objects o JOIN clusters c ON "+
			"c.id = o.cluster_id WHERE c.name = ?", cluster))
		if err != nil {
			return err
		}
		documents, err := database.Value[int64](ctx, t, t.SQL("SELECT COALESCE(SUM(LENGTH(d.document)), 0) FROM openapi s JOIN documents d ON "+
			"d.digest = s.digest"+
			" JOIN clusters c ON c.id = s.cluster_id WHERE c.name = ?", cluster))
		size += documents
		return err
	})
	return size, err
}
