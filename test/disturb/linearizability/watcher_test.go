// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package linearizability

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tripod-k8s/tripod/test/disturb/linearizability/history"
)

// watcher watches a collection, and goes on where it was whenever a watch ends. Unlike other clients it never lists again.
type watcher struct {
	*client
	collection collection
	bookmarks  bool
	// at is the resourceVersion up to which it saw everything.
	at string

	events []history.Event
	// watches is how many it began.
	watches int
	// problem is why it does not go on.
	problem error
}

// errDone is that of a watch that has sent everything.
var errDone = errors.New("everything was seen")

// run watches until the last object appears, there is a problem or the context ends.
func (w *watcher) run(ctx context.Context) {
	for {
		more, err := w.watch(ctx)
		switch {
		case errors.Is(err, errDone):
			return
		case ctx.Err() != nil:
			w.problem = fmt.Errorf("the last object was not seen after %s: %w", w.at, errors.Join(context.Cause(ctx), err))
			return
		case !more:
			w.problem = err
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(thinking)):
		}
	}
}

// watch watches once. It returns why the watch ended, and whether another one may go on.
func (w *watcher) watch(ctx context.Context) (more bool, err error) {
	path := w.collection.path() + "?watch=true&timeoutSeconds=3600&resourceVersion=" + w.at
	if w.bookmarks {
		path += "&allowWatchBookmarks=true"
	}
	resp, err := w.start(ctx, http.MethodGet, path, nil)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	events := json.NewDecoder(resp.Body)
	if resp.StatusCode != http.StatusOK {
		var status object
		err := errors.Join(events.Decode(&status), fmt.Errorf("no watch from %s: %s: %s", w.at, resp.Status, status.Message))
		return resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests, err
	}
	for w.watches++; ; {
		var e struct {
			Type   history.EventType
			Object object
		}
		if err := events.Decode(&e); err != nil {
			syntax, wrong := (*json.SyntaxError)(nil), (*json.UnmarshalTypeError)(nil)
			return !errors.As(err, &syntax) && !errors.As(err, &wrong), err
		}
		if err := w.take(e.Type, e.Object); err != nil {
			return false, err
		}
	}
}

// take takes over an event.
func (w *watcher) take(kind history.EventType, o object) error {
	if kind == "ERROR" {
		return fmt.Errorf("an event after %s: %d %s: %s", w.at, o.Code, o.Reason, o.Message)
	}
	e := history.Event{Type: kind}
	var err error
	if e.Version, err = o.version(); err != nil {
		return err
	}
	w.at = o.Metadata.ResourceVersion
	if o.Metadata.Name == lastName {
		return errDone
	}
	if kind != history.Bookmark {
		state, err := o.state()
		if err != nil {
			return err
		}
		e.Value = state.Value
		if e.Object, err = o.index(); err != nil {
			return err
		}
	}
	w.events = append(w.events, e)
	return nil
}
