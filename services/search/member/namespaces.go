// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// A member may show search some namespaces only. Then search copies these, and nothing outside of namespaces: a resource is listed and
// watched in each namespace by itself, as one stream. The place in a list and the place where the watches go on are then those in all
// namespaces, as JSON.

// maxNamespaces bounds the namespaces of a member, because each resource has a watch in each of them.
const maxNamespaces = 50

// maxPlace is the longest resourceVersion of a stream that every database takes.
const maxPlace = 255

// unplaced is stored in the place of a longer one: the next writer lists.
const unplaced = "-"

// checkNamespaces returns why a member cannot be limited to namespaces.
func checkNamespaces(namespaces []string) error {
	if len(namespaces) > maxNamespaces {
		return fmt.Errorf("search copies at most %d namespaces that are named one by one, and these are %d", maxNamespaces, len(namespaces))
	}
	for _, name := range namespaces {
		if !isNamespace(name) {
			return fmt.Errorf("%q is not the name of a namespace", name)
		}
	}
	return nil
}

// within returns the kinds whose objects are in namespaces, and the names of the others.
func within(kinds []streams.Kind) (namespaced []streams.Kind, others []string) {
	for _, kind := range kinds {
		if kind.Namespaced {
			namespaced = append(namespaced, kind)
		} else {
			others = append(others, kind.GroupResource().String())
		}
	}
	return namespaced, others
}

// in returns the source of one namespace.
func (s source) in(namespace string) source {
	s.namespace, s.namespaces = namespace, nil
	return s
}

// goesOn reports whether a watch can go on at a resourceVersion that the store has. It cannot if other namespaces were copied then.
func (s source) goesOn(resourceVersion string) bool {
	if len(s.namespaces) == 0 {
		return resourceVersion != "" && resourceVersion != unplaced && !strings.HasPrefix(resourceVersion, "{")
	}
	_, err := s.slots(resourceVersion)
	return err == nil
}

// storable returns a resourceVersion as the store keeps it.
func storable(resourceVersion string) string {
	if len(resourceVersion) > maxPlace {
		return unplaced
	}
	return resourceVersion
}

// slots reads the resourceVersions of all namespaces.
func (s source) slots(text string) (map[string]string, error) {
	slots := map[string]string{}
	if err := json.Unmarshal([]byte(text), &slots); err != nil {
		return nil, err
	}
	if !sets.KeySet(slots).Equal(sets.New(s.namespaces...)) {
		return nil, errors.New("these are slots in other namespaces")
	}
	return slots, nil
}

func textOf(slots map[string]string) string {
	text, _ := json.Marshal(slots) // strings can be marshalled
	return string(text)
}

// listPlace is where a list of several namespaces goes on.
type listPlace struct {
	// Listed are the resourceVersions of the lists that are complete.
	Listed map[string]string
	// Continue is the token in the next namespace.
	Continue string
}

// pageOfNamespaces reads a page of the first namespace that is not listed to its end. If that has no objects, it reads on in the next.
func (s source) pageOfNamespaces(
	ctx context.Context, token string, each func(item) error,
) (next, resourceVersion string, count int, err error) {
	at := listPlace{Listed: map[string]string{}}
	if token != "" {
		if err := json.Unmarshal([]byte(token), &at); err != nil {
			return "", "", 0, err
		}
	}
	for _, namespace := range s.namespaces {
		if _, listed := at.Listed[namespace]; listed {
			continue
		}
		next, resourceVersion, n, err := s.in(namespace).page(ctx, at.Continue, each)
		if count += n; err != nil {
			return "", "", count, fmt.Errorf("namespace %s: %w", namespace, err)
		}
		if at.Continue = next; next == "" {
			at.Listed[namespace] = resourceVersion
		}
		if count > 0 || next != "" {
			break
		}
	}
	if len(at.Listed) < len(s.namespaces) {
		text, err := json.Marshal(at)
		return string(text), "", count, err
	}
	for _, version := range at.Listed {
		if version == "" { // the resource cannot be watched
			return "", "", count, nil
		}
	}
	return "", textOf(at.Listed), count, nil
}

// watches are those of several namespaces. They end together.
type watches struct {
	// open is closed when the member has taken all of them.
	open chan struct{}

	mu sync.Mutex
	// slots are where they go on, and syncedAt is up to when all is known of each, or zero.
	slots    map[string]string
	syncedAt map[string]time.Time
}

// watchNamespaces watches all namespaces. It calls opened when the member has taken all watches. silence is how long one may say nothing.
func (s source) watchNamespaces(
	ctx context.Context, resourceVersion string, silence time.Duration, opened func(), each func(event) error,
) error {
	slots, err := s.slots(resourceVersion)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watches{open: make(chan struct{}), slots: slots, syncedAt: map[string]time.Time{}}
	ended := make(chan error, len(s.namespaces))
	for _, namespace := range s.namespaces {
		go func() {
			silent := time.AfterFunc(silence, func() { cancel(errSilent) })
			defer silent.Stop()
			// No event is read until all watches are open: it could be large and keep a permit from others, which this would have to wait for.
			opens := func() {
				w.opened(namespace, opened)
				select {
				case <-w.open:
				case <-ctx.Done():
				}
			}
			err := s.in(namespace).watch(ctx, slots[namespace], false, opens, func(e event) error {
				silent.Reset(silence)
				return w.pass(namespace, e, each)
			})
			if err != nil {
				err = fmt.Errorf("namespace %s: %w", namespace, err)
			}
			ended <- err
		}()
	}
	err = <-ended
	cancel(err)
	for range len(s.namespaces) - 1 {
		<-ended //nolint:errcheck // the first error counts
	}
	return err
}

// opened notes that a watch is open, and calls a function when all are.
func (w *watches) opened(namespace string, all func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.syncedAt[namespace] = (time.Time{}); len(w.syncedAt) == len(w.slots) {
		all()
		close(w.open)
	}
}

// pass passes an event on, one at a time.
func (w *watches) pass(namespace string, e event, each func(event) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.syncedAt[namespace] = e.syncedAt
	e.placed = func(resourceVersion string) (string, time.Time) {
		if resourceVersion != "" {
			w.slots[namespace] = resourceVersion
		}
		oldest := slices.MinFunc(slices.Collect(maps.Values(w.syncedAt)), time.Time.Compare)
		return textOf(w.slots), oldest
	}
	return each(e)
}

func isNamespace(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// canonicalNamespaces returns names in their order, each once.
func canonicalNamespaces(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
