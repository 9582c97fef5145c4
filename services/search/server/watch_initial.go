// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
)

// initialObjects is how many objects a watch reads at once at its beginning, of which no more than a page of bytes is in memory.
const initialObjects = 5000

// initialPage is a part of the objects that a watch begins with.
type initialPage struct {
	store.Page
	objects []store.Found
}

// list returns the first objects that there are, if the client wants them, and the revision where the watch begins. All pages after that are of the same revision.
func (s *watching) list(ctx context.Context, after *query.Position) (*initialPage, error) {
	page, err := &initialPage{}, error(nil)
	if !s.initial() {
		page.Revision, err = s.handler.store.Revision(ctx)
	} else {
		release, failed := s.handler.turns.take(ctx)
		if failed != nil {
			return nil, asStatus(failed)
		}
		defer release()
		part := *s.q
		part.WithRemaining, part.Limit = false, initialObjects
		if after != nil {
			part.After, part.At, part.MaxStaleness = after, &query.Moment{Revision: after.Revision}, 0
		}
		err = s.handler.asReader(ctx, func(v *rights.Visible, from *store.Store) (err error) {
			s.memory.release()
			if page.objects = nil; after == nil {
				s.visible = v
			}
			page.Page, err = from.Within(s.memory.bounds(true)).List(ctx, []schema.GroupVersionResource{s.resource}, &part, func(f store.Found) error {
				page.objects = append(page.objects, f)
				return nil
			})
			return err
		})
	}
	if err != nil {
		return nil, s.asStatus(err)
	}
	if s.q.ResourceVersion > page.Revision {
		return nil, tooLarge(s.q.ResourceVersion, page.Revision)
	}
	return page, nil
}

// begin writes what comes before all changes, and returns false if the watch ends with that.
func (s *watching) begin(ctx context.Context, first *initialPage) bool {
	if s.inTime(s.events.begin) != nil {
		return false // the client is gone
	}
	for page := first; page != nil; {
		if s.inTime(func() error { return s.writeInitial(page.objects) }) != nil {
			return false
		}
		if !page.More {
			break
		}
		after := page.Next
		page.objects = nil
		var err error
		if page, err = s.list(ctx, after); err != nil {
			if ctx.Err() == nil {
				s.fail(err)
			}
			return false
		}
	}
	s.memory.release()
	utilflowcontrol.WatchInitialized(ctx)
	s.bookmarked = s.at
	return s.inTime(s.endInitial) == nil
}

// endInitial tells the client that it has all that there was, if it asked for that.
func (s *watching) endInitial() error {
	if s.options.SendInitialEvents != nil && *s.options.SendInitialEvents && s.options.AllowWatchBookmarks {
		if err := s.events.bookmark(s.at, true); err != nil {
			return err
		}
	}
	return s.events.flush()
}

// writeInitial writes a page, which holds memory until then.
func (s *watching) writeInitial(objects []store.Found) error {
	for _, f := range objects {
		if err := s.events.write(watch.Added, f.Cluster, f.JSON); err != nil {
			return err
		}
	}
	return nil
}
