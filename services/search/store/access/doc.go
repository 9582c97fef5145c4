// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access keeps the rights of readers: the policies of clusters and what their RBAC objects grant, with a generation
// that each change raises. An [ObjectSet] has the objects of a resource in a cluster that a reader may read, as a condition for statements.
// A [Filter] has the sets of a reader, and a transaction asks [IsCurrent] whether it was computed from the rights that are in force.
package access

import (
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// Rights are those of a database.
type Rights struct{ db *database.DB }

// In returns the rights of a database.
func In(db *database.DB) *Rights { return &Rights{db: db} }
