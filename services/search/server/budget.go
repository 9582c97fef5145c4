// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tripod-k8s/tripod/services/search/store"
)

const (
	// pageBytes ends a page of a client that asks for the next one, and maxAnswer bounds an answer to one that does not.
	pageBytes, maxAnswer = 16 << 20, 64 << 20
	// budgetTimeout is how long an answer waits for the memory of others.
	budgetTimeout = 5 * time.Second
)

var refusedAnswers = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "tripod_search_answers_refused_total",
	Help: "Answers that were refused, by what they had too much of: size of one answer, or memory of all.", StabilityLevel: metrics.ALPHA,
}, []string{"reason"})

// smallShare is the part of a budget that any user may have.
const smallShare = 64

// budget is memory that all answers share while they are put together and written. A user may have a 64th of it if it is free. A user with more counts as
// greedy: beside n others of these, it may have 1/(n+2) of what these leave. So one gets half of all, two leave a third to others, and up to seven leave
// 1/(n+1). The ServiceAccounts of a namespace count as one user: somebody who may create one may create many.
type budget struct {
	max, page, largest int64
	patience           time.Duration

	mu    sync.Mutex
	used  int64
	users map[string]int64
	// freed is closed when memory was given back.
	freed chan struct{}
}

func newBudget(bytes int64) *budget {
	legacyregistry.Register(refusedAnswers) //nolint:errcheck // it is registered
	return &budget{
		max: bytes, page: pageBytes, largest: min(maxAnswer, bytes/2), patience: budgetTimeout, users: map[string]int64{}, freed: make(chan struct{}),
	}
}

// held is the part of a budget that an answer has.
type held struct {
	*budget
	ctx  context.Context
	user string
	// copies is how often the form of the answer has its objects in memory.
	copies int64
	// bytes are held. ended is set if there can be no more.
	bytes int64
	ended bool
}

func (b *budget) hold(ctx context.Context, copies int64) *held {
	return &held{budget: b, ctx: ctx, user: ownerOf(ctx), copies: copies}
}

// ownerOf returns the user that a request counts for: memory, watches and turns. It is empty in tests without a user.
func ownerOf(ctx context.Context) string {
	user, known := request.UserFrom(ctx)
	if !known {
		return ""
	}
	if namespace, _, err := serviceaccount.SplitUsername(user.GetName()); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace)
	}
	return user.GetName()
}

// bounds are those of a search. paged says that the client asks for the next page.
func (h *held) bounds(paged bool) store.Bounds {
	bounds := store.Bounds{Charge: h.charge}
	if paged {
		bounds.Page = h.page / h.copies
	}
	return bounds
}

// charge takes memory for objects, or gives it back. The error is a Status.
func (h *held) charge(bytes int64) error {
	bytes *= h.copies
	late := time.NewTimer(h.patience)
	defer late.Stop()
	for {
		freed, err := h.take(bytes)
		if freed == nil || err != nil {
			return err
		}
		select {
		case <-freed:
		case <-h.ctx.Done():
			return h.ctx.Err()
		case <-late.C:
			refusedAnswers.WithLabelValues("memory").Inc()
			return apierrors.NewTooManyRequests("other answers take the memory for answers: try again later, or ask for smaller pages (limit)", 1)
		}
	}
}

// take takes memory, or returns a channel that is closed when it is worth another try.
func (h *held) take(bytes int64) (freed <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ended:
		return nil, context.Canceled
	case bytes > 0 && h.bytes+bytes > h.largest:
		refusedAnswers.WithLabelValues("size").Inc()
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestEntityTooLarge, Reason: metav1.StatusReasonRequestEntityTooLarge,
			Message: fmt.Sprintf("the answer has more than %d MiB of objects: ask for pages with limit=500 and withContinue=true, or name clusters or namespaces",
				h.largest/h.copies>>20),
		}}
	case bytes > 0 && (h.used+bytes > h.max || h.users[h.user]+bytes > h.share(h.user)):
		return h.freed, nil
	}
	h.add(bytes)
	return nil, nil
}

// share returns how much a user may have.
func (b *budget) share(user string) int64 { return shareOf(b.max, b.users, user) }

// shareOf returns how much a user may have of something of which there is a maximum.
func shareOf(most int64, users map[string]int64, user string) int64 {
	free, others := most, int64(0)
	for other, has := range users {
		if other != user && has > most/smallShare {
			free, others = free-has, others+1
		}
	}
	return max(most/smallShare, free/(others+2))
}

// add changes how much is held.
func (h *held) add(bytes int64) {
	b := h.budget
	h.bytes += bytes
	b.used += bytes
	if b.users[h.user] += bytes; b.users[h.user] == 0 {
		delete(b.users, h.user)
	}
	if bytes < 0 {
		close(b.freed)
		b.freed = make(chan struct{})
	}
}

// release gives all memory back.
func (h *held) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(-h.bytes)
}

// end gives all memory back, and lets an answer that is still being put together have no more.
func (h *held) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(-h.bytes)
	h.ended = true
}

// writeTimeout is how long an answer may take to be written. A client that reads slower keeps memory from others.
const writeTimeout = time.Minute

// inTime calls write, and lets what it writes fail after a timeout. If it fails, the connection keeps the deadline: the server could not end the answer.
func inTime(w http.ResponseWriter, timeout time.Duration, write func() error) error {
	controller := http.NewResponseController(w)
	bounded := controller.SetWriteDeadline(time.Now().Add(timeout)) == nil // not by the recorders of tests
	err := write()
	if bounded && err == nil {
		controller.SetWriteDeadline(time.Time{}) //nolint:errcheck // the connection is gone
	}
	return err
}
