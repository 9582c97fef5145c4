// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"time"
)

// list copies all objects, removes others, and goes on to watch. If they cannot be watched for some reason, it returns when they are to be
// listed again.
func (s *stream) list(ctx context.Context, unwatched error) error {
	s.endList = beginList(s.store)
	defer func() { s.endList() }()
	s.set(func(status *Status) {
		// Why it fails stays until a list is complete.
		if status.Refused, status.Listing = nil, true; status.Phase != Failed && status.Reason != LimitReached {
			status.Phase, status.Reason, status.Message = Syncing, "", ""
		}
	})
	s.saveStatus(ctx)
	s.full = nil
	listing := time.Now().UnixNano()
	if !s.plain && unwatched == nil && len(s.namespaces) == 0 {
		err := s.follow(ctx, true, listing)
		if s.complete == listing || err != nil && !refusesStreaming(err) && !standsStill(err) {
			return err
		}
		s.plain = standsStill(err)
	}
	resourceVersion, err := s.pages(ctx, listing)
	if err == nil {
		err = s.listed(ctx, listing, resourceVersion)
	}
	if err == nil && resourceVersion == "" {
		unwatched = errNoVersion
	}
	if err == nil && unwatched != nil {
		err = s.awaitNextList(ctx, unwatched)
	}
	return err
}

// standsStill reports whether a streaming list has not come to its end. Not all API servers that take one can send the bookmark at its end.
func standsStill(err error) bool {
	var limit *LimitError
	return errors.As(err, &limit) && limit.Limit == limitTime
}

// listed ends a list. If the cluster has more than search keeps, the list does not count as complete, and what the cluster has no more goes
// nevertheless. An error says so, unless the watch goes on.
func (s *stream) listed(ctx context.Context, listing int64, resourceVersion string) error {
	if s.full != nil {
		if err := s.keepTrying(ctx, func() error { return s.store.RemoveUnlisted(ctx, s.target, listing) }); err != nil {
			return err
		}
		if !s.staysWhenFull() {
			return s.full
		}
	} else if err := s.keepTrying(ctx, func() error { return s.store.Sweep(ctx, s.target, listing, storable(resourceVersion)) }); err != nil {
		return err
	}
	s.complete = listing
	s.target.Listed, s.target.ResourceVersion = true, resourceVersion
	s.syncing()
	s.saveStatus(ctx)
	s.endList()
	return nil
}

// pages copies a list page by page. If its token expires, it begins again.
func (s *stream) pages(ctx context.Context, listing int64) (resourceVersion string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limiter.listTime, s.limiter.listTooLong())
	defer cancel()
	ctx, end := context.WithCancel(ctx)
	defer end()
	// One goroutine reads and another one writes: a member that takes its time for the next object holds no memory for those before.
	events := make(chan read)
	failed := make(chan error, 1)
	go func() {
		defer close(events)
		var err error
		resourceVersion, err = s.readPages(ctx, func(i item) error { return s.take(ctx, events, i) })
		failed <- err
	}()
	err = s.writeAll(ctx, &following{}, events, listing, s.limiter.listTime)
	if err != nil {
		end()
		for r := range events { // the reader ends
			r.done()
		}
	} else {
		err = <-failed
	}
	if err != nil {
		return "", cause(ctx, err)
	}
	return resourceVersion, nil
}

// readPages reads a list page by page.
func (s *stream) readPages(ctx context.Context, each func(item) error) (resourceVersion string, err error) {
	empty := 0
	for token := ""; ; {
		before := token
		var count int
		if token, resourceVersion, count, err = s.page(ctx, token, each); err != nil {
			return "", err
		}
		if empty++; count > 0 {
			empty = 0
		}
		switch {
		case token == "":
			return resourceVersion, nil
		case token == before || empty > emptyPages:
			return "", limited("pages", "", "the list does not end: its pages repeat or have no objects")
		case len(token) > maxToken:
			return "", limited("pages", "", "the token of the next page has more than %d bytes", maxToken)
		}
	}
}

// maxToken is the longest token of a list. It has to fit into a URL.
const maxToken = 8 << 10

// take passes an object of a list on.
func (s *stream) take(ctx context.Context, events chan<- read, i item) error {
	change, _, err := s.change(i.text, listedObject)
	if err == nil {
		select {
		case events <- read{change: change, item: i}:
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	i.done()
	return err
}
