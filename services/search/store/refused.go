// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"

	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/objectjson"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// IsRefused reports whether an error of Write is about the values of an object, such as one that is too long, so that others could be
// written.
func IsRefused(err error) bool {
	return errors.Is(err, objectjson.ErrNoObject) || database.IsRefusal(err)
}

// IsAboutData reports whether a batch that the database does not take has values which it does not take, by an error that says nothing of
// that: then it takes the same batch without changes.
func (s *Store) IsAboutData(ctx context.Context, stream *streams.Stream, err error) bool {
	if !database.MayBeRefusal(err) {
		return false
	}
	probe := *stream // as part of another list, it does not count as synced
	return s.Write(ctx, &probe, Batch{Listing: -1}) == nil
}
