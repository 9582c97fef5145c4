// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package streams keeps what is copied, and by which writer: clusters, the kinds that they have, and the streams of the store.
//
// A [Stream] is one resource of one cluster. Each stream has an epoch. Opening a stream raises it, and a writer with an older epoch is
// refused, see [Hold]. So two writers never interleave. Replicas note here that they are alive, what they say of their streams, and when
// they were last synced with the member. The OpenAPI documents of clusters are kept here, too.
package streams

import (
	"errors"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// Errors of questions about what the database does not have.
var (
	ErrUnknownKind = errors.New("no cluster has the resource")
	ErrNoDocument  = errors.New("the cluster has no such document")
)

// Registry has the clusters, kinds and streams of a database.
type Registry struct {
	db *database.DB
	// hub is the cluster that says what a kind is for all clusters, or empty.
	hub string
}

// In returns what a database has. hub is a cluster that search is part of: what it says about a kind counts for all clusters. It may be
// empty.
func In(db *database.DB, hub string) *Registry { return &Registry{db: db, hub: hub} }

// On returns the same on a database with another throttle.
func (s *Registry) On(db *database.DB) *Registry { return In(db, s.hub) }
