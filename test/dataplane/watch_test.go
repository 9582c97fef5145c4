// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// watcher watches a collection, and goes on where it was when a watch ends, as clients do.
type watcher struct {
	client    *client
	resource  resource
	path      string
	bookmarks bool
	// started is closed when the first watch has begun.
	started chan struct{}
	once    sync.Once

	mu sync.Mutex
	// at is the version up to which everything was seen.
	at     string
	events []event
	// ends is how many watches ended, torn how many of them within an event, and expired how many because a server does
	// not know what happened since: then the watcher lists.
	ends, torn, expired int
	// problems are what clients should never see.
	problems []string
	over     chan struct{}
}

// event is an event of a watch.
type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

// relisted is the type of an event that is the answer to a list.
const relisted = "LIST"

// errExpired is why a watch ends whose version is too old.
var errExpired = errors.New("the version is too old")

// run watches until the context ends, or a client would not know how to go on.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.watch(ctx)
		if errors.Is(err, errExpired) {
			err = w.relist(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		w.ends++
		switch {
		case err == nil:
			w.expired++
		case errors.Is(err, io.ErrUnexpectedEOF):
			w.torn++
		case !errors.Is(err, io.EOF):
			w.problems = append(w.problems, fmt.Sprintf("at %s: %v", w.at, err))
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
	}
}

// relist lists, and takes that for all that happened.
func (w *watcher) relist(ctx context.Context) error {
	a, err := w.client.send(ctx, http.MethodGet, w.path, nil)
	if err == nil {
		err = a.expect(http.StatusOK)
	}
	if err != nil {
		return fmt.Errorf("cannot list: %w", err)
	}
	list, err := decode(a.body)
	if err == nil {
		err = w.take(event{relisted, list})
	}
	return err
}

// watch watches once, and returns why it ended: io.EOF where it ended well.
func (w *watcher) watch(ctx context.Context) error {
	url := fmt.Sprintf("%s%s?watch=true&timeoutSeconds=3600&resourceVersion=%s", w.client.url, w.path, w.now())
	if w.bookmarks {
		url += "&allowWatchBookmarks=true"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := w.client.connection().Do(req)
	if err != nil {
		return fmt.Errorf("cannot watch: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body) //nolint:errcheck // the code is what counts
		return fmt.Errorf("cannot watch: status %d: %s", resp.StatusCode, body)
	}
	w.once.Do(func() { close(w.started) })
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

// take takes over an event.
func (w *watcher) take(e event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED", relisted:
		w.events = append(w.events, e)
		if e.Object.Metadata.Name == theEnd || slices.ContainsFunc(e.Object.Items, func(o object) bool { return o.Metadata.Name == theEnd }) {
			close(w.doneLocked())
		}
	case "BOOKMARK":
	case "ERROR":
		if e.Object.Code == http.StatusGone {
			return errExpired
		}
		return fmt.Errorf("there is an error in a watch: %d %s", e.Object.Code, e.Object.Message)
	default:
		return fmt.Errorf("there is an event %q in a watch", e.Type)
	}
	w.at = e.Object.Metadata.ResourceVersion
	return nil
}

func (w *watcher) now() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// done is closed when the last object was seen.
func (w *watcher) done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.doneLocked()
}

func (w *watcher) doneLocked() chan struct{} {
	if w.over == nil {
		w.over = make(chan struct{})
	}
	return w.over
}

// sawAll expects every watcher to have seen everything that workers wrote, once and in order.
func (tr *traffic) sawAll(t testing.TB) {
	t.Helper()
	wrote := map[resource]map[string][]write{}
	for _, w := range tr.workers {
		if wrote[w.resource] == nil {
			wrote[w.resource] = map[string][]write{}
		}
		for _, write := range w.writes {
			wrote[w.resource][write.name] = append(wrote[w.resource][write.name], write)
		}
	}
	for i, w := range tr.watchers {
		if err := w.saw(wrote[w.resource]); err != nil {
			t.Errorf("watcher %d of %s: %v", i, w.resource.plural, err)
		}
	}
}

// saw compares events with writes by the name of objects.
func (w *watcher) saw(wrote map[string][]write) error {
	seen, last := map[string]int{}, uint64(0)
	for _, e := range w.events {
		version, err := e.Object.version()
		if err != nil {
			return err
		}
		if version <= last && e.Type != relisted {
			return fmt.Errorf("%s %s has version %d after %d", e.Type, e.Object.Metadata.Name, version, last)
		}
		last = max(last, version)
		if e.Type == relisted {
			if err := skip(seen, wrote, e.Object.Items, version); err != nil {
				return err
			}
			continue
		}
		name := e.Object.Metadata.Name
		n := seen[name]
		seen[name]++
		if n >= len(wrote[name]) {
			return fmt.Errorf("there is an event %s %s %q, which nobody wrote", e.Type, name, e.Object.Data.Value)
		}
		if want := wrote[name][n]; !want.isSeenAs(e) {
			return fmt.Errorf("event %d of %s is %s %q @%d, not %s %q @%s", n, name, e.Type, e.Object.Data.Value, version, want.event, want.value, want.version)
		}
	}
	for name, writes := range wrote {
		for _, missing := range writes[min(seen[name], len(writes)):] {
			if !missing.maybe {
				return fmt.Errorf("%s %s %q @%s was not seen", missing.event, name, missing.value, missing.version)
			}
		}
	}
	return nil
}

// skip counts what a list of some version has as seen.
func skip(seen map[string]int, wrote map[string][]write, items []object, version uint64) error {
	values := map[string]string{}
	for _, item := range items {
		values[item.Metadata.Name] = item.Data.Value
	}
	for name, writes := range wrote {
		value, exists := values[name]
		i := slices.IndexFunc(writes, func(w write) bool { return exists && w.event != "DELETED" && w.value == value })
		created, _ := strconv.ParseUint(writes[0].version, 10, 64) //nolint:errcheck // 0 where it is not known
		switch {
		case exists && i < seen[name]-1:
			return fmt.Errorf("a list has %s with %q, which is not what was seen last", name, value)
		case exists:
			seen[name] = i + 1
		case created != 0 && created <= version && writes[len(writes)-1].event != "DELETED":
			return fmt.Errorf("a list at %d is without %s", version, name)
		case created != 0 && created <= version:
			seen[name] = len(writes)
		}
	}
	return nil
}

func (w write) isSeenAs(e event) bool {
	return e.Type == w.event && e.Object.Data.Value == w.value && (w.version == "" || w.version == e.Object.Metadata.ResourceVersion)
}

// watchesAreWell expects that no watch had an error. Where nobody was killed, none ends within an event.
func (tr *traffic) watchesAreWell(t testing.TB, killed bool) {
	t.Helper()
	torn, expired := 0, map[string]int{}
	for i, w := range tr.watchers {
		for _, problem := range w.problems {
			t.Errorf("watcher %d of %s, %s", i, w.resource.plural, problem)
		}
		torn += w.torn
		if w.expired > 0 {
			expired[w.resource.plural] += w.expired
		}
	}
	switch {
	case torn > 0 && !killed:
		t.Errorf("%d watches ended within an event", torn)
	case torn > 0:
		t.Logf("%d watches ended within an event", torn)
	}
	if len(expired) > 0 {
		t.Errorf("watches ended because their version was too old: %v", expired)
	}
}
