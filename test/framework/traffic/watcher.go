// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
)

// watcher watches a collection. When a watch ends, it resumes from its last resourceVersion, as clients do. Unlike clients, it never lists again:
// it should not have to.
type watcher struct {
	client    *Client
	resource  Resource
	path      string
	bookmarks bool
	// started is closed when the first watch begins.
	started chan struct{}
	start   sync.Once
	// done is closed when the watcher sees the last object, and lost when it stops watching.
	done, lost chan struct{}

	// The fields below belong to the goroutine of the watcher until lost is closed.

	// at is the resourceVersion up to which the watcher has seen all events.
	at     string
	events []event
	// ends is the number of watches that ended, and torn the number of those that ended within an event.
	ends, torn int
	// problem is an error that no client should get. It stops the watcher.
	problem error
}

func newWatcher(t testing.TB, c *Client, r Resource, namespace string, bookmarks bool) *watcher {
	t.Helper()
	w := &watcher{
		client: c, resource: r, path: r.Collection(namespace), bookmarks: bookmarks,
		started: make(chan struct{}), done: make(chan struct{}), lost: make(chan struct{}),
	}
	w.at = c.Need(t, http.MethodGet, w.path, nil).Metadata.ResourceVersion
	return w
}

// event is an event of a watch.
type event struct {
	Type   string `json:"type"`
	Object Object `json:"object"`
}

// run watches until the context ends or a problem occurs.
func (w *watcher) run(ctx context.Context) {
	defer close(w.lost)
	for ctx.Err() == nil {
		err := w.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		w.ends++
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			w.torn++
		case !errors.Is(err, io.EOF):
			w.problem = err
			return
		}
	}
}

// watch sends one watch and reads its events. It returns io.EOF if the watch ended between two events, and otherwise another error.
func (w *watcher) watch(ctx context.Context) error {
	url := fmt.Sprintf("%s%s?watch=true&timeoutSeconds=3600&resourceVersion=%s", w.client.url, w.path, w.at)
	if w.bookmarks {
		url += "&allowWatchBookmarks=true"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := w.client.connection().Do(req)
	if err != nil {
		return errors.New("no watch: " + cause(err)) // not wrapped: it may be an io.EOF
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		status, err := Decode(body)
		return errors.Join(fmt.Errorf("no watch: status %d: %s", resp.StatusCode, status.Message), err)
	}
	w.start.Do(func() { close(w.started) })
	for events := json.NewDecoder(resp.Body); ; {
		var e event
		if err := events.Decode(&e); err != nil {
			return err
		}
		if err := w.take(e); err != nil {
			return err
		}
	}
}

// cause returns the error of a request without its URL.
func cause(err error) string {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err.Error()
}

// take records an event.
func (w *watcher) take(e event) error {
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED", "BOOKMARK":
	case "ERROR":
		return fmt.Errorf("an event that says %d %s", e.Object.Code, e.Object.Reason)
	default:
		return fmt.Errorf("an event of type %q", e.Type)
	}
	w.events = append(w.events, e)
	w.at = e.Object.Metadata.ResourceVersion
	if e.Object.Metadata.Name == theEnd {
		close(w.done)
	}
	return nil
}

// awaitEnd returns when the watcher has seen the last object or has stopped.
func (w *watcher) awaitEnd(ctx context.Context) {
	select {
	case <-w.done:
	case <-w.lost:
	case <-ctx.Done():
	}
}
