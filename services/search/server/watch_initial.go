// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
)

// initialObjects is how many objects a watch reads at once at its beginning, of which no more than a page of bytes is in memory.
const initialObjects = 5000

// initialTime is how long a watch may take for them, and for one page more. It has a seat of priority and fairness until then.
const initialTime = 4 * time.Minute

// initialPage is a part of the objects that a watch begins with.
type initialPage struct {
	store.Page
	objects []store.Found
}

// list returns the first objects that there are, if the client wants them, and the revision where the watch begins. All pages after that
// are of the same revision.
func (s *watching) list(ctx context.Context, after *query.Position) (*initialPage, error) {
	page, err := &initialPage{}, error(nil)
	if !s.initial() {
		page.Revision, err = s.handler.store.Revision(ctx)
	} else {
		release, failed := s.acquire(ctx)
		if failed != nil {
			return nil, asStatus(ctx, failed)
		}
		defer release()
		part := *s.q
		part.WithRemaining, part.Limit = false, initialObjects
		if after != nil {
			part.After, part.At, part.MaxStaleness = after, &query.Moment{Revision: after.Revision}, 0
		}
		err = s.handler.asReader(ctx, func(v *rights.AccessSet, from *store.Store) error {
			if after == nil {
				s.accessSet = v
			}
			return s.memory.search(func() (err error) {
				page.objects = nil
				page.Page, err = from.Within(s.memory.bounds(true)).List(ctx, []schema.GroupVersionResource{s.resource}, &part,
					func(f store.Found) error {
						page.objects = append(page.objects, f)
						return nil
					})
				return err
			})
		})
	}
	if err != nil {
		return nil, s.asStatus(ctx, err)
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
	within, cancel := context.WithTimeoutCause(ctx, s.handler.initialTime, errInitial)
	defer cancel()
	for page := first; page != nil; {
		err := s.writeInitial(within, page.objects)
		s.memory.release()
		if err == nil && !page.More {
			break
		}
		if err == nil {
			err = context.Cause(within)
		}
		if err == nil {
			page, err = s.list(within, page.Next)
		}
		if err != nil {
			s.failInitial(ctx, within, err)
			return false
		}
	}
	utilflowcontrol.WatchInitialized(ctx)
	s.bookmarked = s.at
	return s.inTime(s.endInitial) == nil
}

// endInitial sends the bookmark at the end of the initial events, if the client asked for it.
func (s *watching) endInitial() error {
	if s.options.SendInitialEvents != nil && *s.options.SendInitialEvents && s.options.AllowWatchBookmarks {
		if err := s.events.bookmark(s.at, true); err != nil {
			return err
		}
	}
	return s.events.flush()
}

// errInitial is why the objects that there are do not come to an end.
var errInitial = apierrors.NewTimeoutError(fmt.Sprintf("the objects that the watch begins with take more than %s: "+
	"name clusters or namespaces, read faster, or begin with a list in pages", initialTime), 1)

// failInitial writes why the watch ends before its changes, unless the client is gone.
func (s *watching) failInitial(ctx, within context.Context, err error) {
	switch {
	case errors.Is(err, errGone):
		return
	case within.Err() != nil:
		err = context.Cause(within)
	}
	s.failUnlessOver(ctx, err)
}

// writeInitial writes a page, which holds memory until then.
func (s *watching) writeInitial(ctx context.Context, objects []store.Found) error {
	if s.events.as != plain {
		return s.writeShown(ctx, objects)
	}
	written := s.inTime(func() error {
		for _, f := range objects {
			if err := s.events.raw(watch.Added, f.JSON); err != nil {
				return err
			}
		}
		return nil
	})
	if written != nil {
		return errGone
	}
	return nil
}

// writeShown writes a page in a form for which it takes a look at each object.
func (s *watching) writeShown(ctx context.Context, objects []store.Found) error {
	for _, f := range objects {
		done, err := s.look(ctx)
		if err != nil {
			return err
		}
		object, err := s.events.shown(f.Cluster, f.JSON)
		done()
		if err != nil {
			return err
		}
		if s.inTime(func() error { return s.events.raw(watch.Added, object) }) != nil {
			return errGone
		}
	}
	return nil
}
