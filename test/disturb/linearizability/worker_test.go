// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tripod-k8s/tripod/test/disturb/linearizability/history"
)

// thinking is how long a worker waits at most between two requests.
const thinking = 40 * time.Millisecond

// worker uses a collection, with others.
type worker struct {
	*client
	collection collection
	// values has the last value that any worker of the collection wrote.
	values *atomic.Int64
	began  time.Time
	// number is its own, one of so many. It takes another one when it does not know the outcome of a request.
	number, of int

	// known is what it last saw of each object, and version the highest version of all that it saw.
	known   [history.Size]history.Object
	version uint64

	requests []history.Request
	// failed is how many requests were in vain, by what came instead of an answer, and surprises are answers that no client
	// should get.
	failed    map[string]int
	surprises []error
}

func (w *worker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(thinking)):
			w.step(context.WithoutCancel(ctx))
		}
	}
}

// step sends a request, and sometimes reads at once what it wrote: a read that is behind the write would hardly be by
// another client who thinks first.
func (w *worker) step(ctx context.Context) {
	r := w.choose()
	if w.do(ctx, r) && r.Value != 0 && w.random.IntN(2) == 0 {
		w.do(ctx, history.Request{Verb: history.Get + history.Verb(w.random.IntN(2)), Object: r.Object})
	}
}

// choose returns the next request.
func (w *worker) choose() history.Request {
	r := history.Request{Object: w.random.IntN(history.Size)}
	known := w.known[r.Object]
	switch dice := w.random.IntN(20); {
	case dice < 4:
		r.Verb = history.Get
	case dice < 7:
		r.Verb = history.List
	case dice < 9:
		r.Verb, r.Cached = history.Get, true
	case dice < 11:
		r.Verb, r.Cached = history.List, true
	case known == (history.Object{}) || dice == 11:
		r.Verb = history.Create
	case dice < 18:
		r.Verb, r.Precondition = history.Update, known.Version
	default:
		r.Verb, r.Precondition = history.Delete, known.Version
	}
	if r.Verb == history.Create || r.Verb == history.Update {
		r.Value = int(w.values.Add(1))
	}
	if r.Cached && w.random.IntN(2) == 0 {
		r.NotBefore = w.version
	}
	return r
}

// do sends a request, and writes down what comes of it.
func (w *worker) do(ctx context.Context, r history.Request) bool {
	r.Client, r.Collection = w.number, w.collection.path()
	method, path, body := w.wire(r)
	r.Sent = time.Since(w.began)
	code, answer, err := w.send(ctx, method, path, body)
	r.Answered = time.Since(w.began)

	reads := method == http.MethodGet
	switch {
	case errors.Is(err, errNotSent), code == http.StatusTooManyRequests:
		w.failed[instead(code, err)]++
		return false
	case err != nil && code == 0, code >= http.StatusInternalServerError:
		w.failed[instead(code, err)]++
		if !reads {
			r.Outcome = history.Unknown
			w.requests = append(w.requests, r)
			w.number += w.of
		}
		return false
	}
	if err == nil {
		err = w.understand(&r, code, answer)
	}
	if err != nil {
		w.surprises = append(w.surprises, fmt.Errorf("client %d at %v: %s %s: %w", r.Client, r.Sent, method, path, err))
		return false
	}
	w.learn(r)
	w.requests = append(w.requests, r)
	return true
}

// instead returns in a word what came instead of an answer.
func instead(code int, err error) string {
	switch {
	case code != 0:
		return strconv.Itoa(code)
	case errors.Is(err, errNotSent):
		return "refused"
	case errors.Is(err, context.DeadlineExceeded):
		return "silence"
	}
	return "broken"
}

// wire returns a request as it is sent.
func (w *worker) wire(r history.Request) (method, path string, body []byte) {
	all := w.collection.path()
	one := all + "/" + nameOf(r.Object)
	query := ""
	if r.Cached {
		query = "?resourceVersion=" + strconv.FormatUint(r.NotBefore, 10)
		if r.Verb == history.List && r.NotBefore != 0 {
			query += "&resourceVersionMatch=NotOlderThan"
		}
	}
	switch r.Verb {
	case history.Create:
		return http.MethodPost, all, w.collection.body(nameOf(r.Object), r.Value, 0)
	case history.Update:
		return http.MethodPut, one, w.collection.body(nameOf(r.Object), r.Value, r.Precondition)
	case history.Delete:
		return http.MethodDelete, one, deletion(r.Precondition)
	case history.Get:
		return http.MethodGet, one + query, nil
	}
	return http.MethodGet, all + query, nil
}

// understand completes a request with its answer.
func (w *worker) understand(r *history.Request, code int, answer object) (err error) {
	about := answer.Details.Name == nameOf(r.Object)
	switch {
	case code == http.StatusOK && r.Verb == history.List:
		if r.Version, err = answer.version(); err == nil {
			r.Seen, err = answer.states()
		}
	case code == http.StatusOK && r.Verb == history.Get:
		r.Seen[r.Object], err = answer.state()
	case code == http.StatusNotFound && r.Verb == history.Get && about:
	case code == http.StatusOK && r.Verb == history.Delete:
	case code == http.StatusOK && r.Verb == history.Update, code == http.StatusCreated && r.Verb == history.Create:
		var now history.Object
		if now, err = answer.state(); err == nil && now.Value != r.Value {
			err = fmt.Errorf("the value is %d, not %d", now.Value, r.Value)
		}
		r.Version = now.Version
	case r.Verb == history.Create && answer.Reason == "AlreadyExists" && about:
		r.Outcome = history.Exists
	case r.Verb != history.List && r.Verb != history.Create && code == http.StatusNotFound && about:
		r.Outcome = history.Missing
	case (r.Verb == history.Update || r.Verb == history.Delete) && answer.Reason == "Conflict":
		r.Outcome = history.Conflict
	default:
		err = fmt.Errorf("status %d, %s: %s", code, answer.Reason, answer.Message)
	}
	return err
}

// learn takes over what the answer to a request has.
func (w *worker) learn(r history.Request) {
	w.version = max(w.version, r.Version)
	switch {
	case r.Verb == history.List:
		w.known = r.Seen
	case r.Verb == history.Get:
		w.known[r.Object] = r.Seen[r.Object]
	case r.Outcome == history.Missing, r.Outcome == history.Done && r.Verb == history.Delete:
		w.known[r.Object] = history.Object{}
	case r.Outcome == history.Done:
		w.known[r.Object] = history.Object{Value: r.Value, Version: r.Version}
	}
	for _, seen := range w.known {
		w.version = max(w.version, seen.Version)
	}
}
