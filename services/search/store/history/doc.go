// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history keeps each change of an object, with the state before it, for as long as the history goes back.
//
// A writer of objects adds changes in its own transaction ([KeepStates], [AddChanges]). Watches read them ([Log.Transitions]), as far as
// they are of interest to a reader ([Interest]). Searches of the past find the revision of a moment ([RevisionAt]), and whether what had a
// name then has it now ([Incarnations]).
package history

import (
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// Log is the history in a database.
type Log struct {
	db     *database.DB
	bounds database.Bounds
}

// In returns the history in a database. Transitions keeps to the bounds.
func In(db *database.DB, bounds database.Bounds) *Log { return &Log{db: db, bounds: bounds} }

// On returns the same on a database with another throttle.
func (s *Log) On(db *database.DB) *Log { return In(db, s.bounds) }
