// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package linearizability

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/disturb/linearizability/history"
)

// judge reports what clients should not have seen, and then keeps what they saw.
func (r *round) judge(t *testing.T, p *party) {
	t.Helper()
	requests := p.requests()
	began := time.Now()
	verdict := history.Check(requests, giveUp)
	took := time.Since(began)
	p.summarize(t, requests, took)

	errs := []error{p.uses(requests)}
	if verdict != history.Right {
		errs = append(errs, fmt.Errorf("no order of the requests explains all answers: %s after %s", verdict, took))
	}
	for _, w := range p.workers {
		errs = append(errs, w.surprises...)
	}
	for i, w := range p.watchers {
		if w.problem != nil {
			errs = append(errs, fmt.Errorf("watcher %d: %w", i, w.problem))
			continue
		}
		timeline, err := history.Follow(requests, w.events)
		if err != nil {
			errs = append(errs, fmt.Errorf("watcher %d: %w", i, err))
			continue
		}
		if err := timeline.Check(requests); err != nil {
			errs = append(errs, fmt.Errorf("reads from caches, compared with watcher %d: %w", i, err))
		}
		if !slices.Equal(withoutBookmarks(w.events), withoutBookmarks(p.watchers[0].events)) {
			errs = append(errs, fmt.Errorf("watcher %d saw other events than watcher 0", i))
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Errorf("%s:\n%v", p.collection.plural, err)
		r.keep(t, p, requests, verdict == history.Wrong)
	}
}

func (p *party) requests() []history.Request {
	var all []history.Request
	for _, w := range p.workers {
		all = append(all, w.requests...)
	}
	slices.SortFunc(all, func(a, b history.Request) int { return int(a.Sent - b.Sent) })
	return all
}

func withoutBookmarks(events []history.Event) []history.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Type == history.Bookmark })
}

// uses returns an error where a history proves little, because too little happened.
func (p *party) uses(requests []history.Request) error {
	var errs []error
	for verb := history.Create; verb <= history.List; verb++ {
		if !slices.ContainsFunc(requests, func(r history.Request) bool { return r.Verb == verb && !r.Cached && r.Outcome == history.Done }) {
			errs = append(errs, fmt.Errorf("nobody could %s", verb))
		}
	}
	if !slices.ContainsFunc(requests, func(r history.Request) bool { return r.NotBefore > 0 }) {
		errs = append(errs, errors.New("nobody could read from a cache"))
	}
	return errors.Join(errs...)
}

func (p *party) summarize(t testing.TB, requests []history.Request, took time.Duration) {
	t.Helper()
	unknown, failed, events, watches := 0, map[string]int{}, 0, 0
	for _, r := range requests {
		if r.Outcome == history.Unknown {
			unknown++
		}
	}
	for _, w := range p.workers {
		for reason, n := range w.failed {
			failed[reason] += n
		}
	}
	for _, w := range p.watchers {
		events += len(w.events)
		watches += w.watches
	}
	t.Logf("%s: %d requests, of %d nobody knows the outcome; failed: %v; %d watchers began %d watches and saw %d events; judged in %s",
		p.collection.plural, len(requests), unknown, failed, len(p.watchers), watches, events, took.Round(time.Millisecond))
}

// keep writes what clients saw to files, and returns where these will be.
func (r *round) keep(t testing.TB, p *party, requests []history.Request, draw bool) {
	t.Helper()
	name := p.collection.plural + "-" + p.collection.namespace
	saw := struct {
		Requests []history.Request
		Watchers [][]history.Event
	}{Requests: requests}
	for _, w := range p.watchers {
		saw.Watchers = append(saw.Watchers, w.events)
	}
	data, err := json.MarshalIndent(saw, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(r.artifacts, name+".json"), data, 0o600)
	}
	if err == nil && draw {
		err = history.Draw(requests, giveUp, filepath.Join(r.artifacts, name+".html"))
	}
	if err != nil {
		t.Error(err)
		return
	}
	t.Logf("what clients saw of %s is in %s", p.collection.plural, filepath.Join(r.kept, name+".*"))
}
