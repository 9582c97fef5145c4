// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
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

	"github.com/tripod-k8s/tripod/base/broadcast"
	"github.com/tripod-k8s/tripod/services/search/store/database"
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

// budget is memory that all answers share while they are put together and written. A user may have a 64th of it if it is free. A user with
// more counts as greedy: beside n others of these, it may have 1/(n+2) of what these leave. So one gets half of all, two leave a third to
// others, and up to seven leave 1/(n+1). The ServiceAccounts of a namespace count as one user: a user who may create one may create many.
type budget struct {
	max, page, largest int64
	waitTimeout        time.Duration

	mu    sync.Mutex
	used  int64
	users map[string]int64
	// freed wakes answers that wait when others give memory back.
	freed broadcast.Broadcast
}

func newBudget(bytes int64) *budget {
	legacyregistry.Register(refusedAnswers) //nolint:errcheck // it is registered
	return &budget{
		max: bytes, page: pageBytes, largest: min(maxAnswer, bytes/2), waitTimeout: budgetTimeout, users: map[string]int64{},
	}
}

// held is the part of a budget that an answer has.
type held struct {
	*budget
	ctx  context.Context
	user string
	// bytes are held: those that were charged, or more if some are reserved for a search that runs again. wanted is what it has asked for in
	// vain.
	bytes, charged, reserved, wanted int64
}

func (b *budget) hold(ctx context.Context) *held {
	return &held{budget: b, ctx: ctx, user: ownerOf(ctx)}
}

// ownerOf returns the user that a request counts for: memory, watches and searches. It is empty in tests without a user.
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

// bounds are those of a search that runs in search. paged says that the client asks for the next page.
func (h *held) bounds(paged bool) database.Bounds {
	bounds := database.Bounds{Charge: h.chargeNow}
	if paged {
		bounds.Page = h.page
	}
	return bounds
}

// errMemory ends a search for which there is no memory now.
var errMemory = errors.New("other answers take the memory for answers")

// mostRuns is how often a search may run, if others leave it only a little more memory each time.
const mostRuns = 8

// search runs a search of the store. If others have the memory that it needs, the search ends, gives its connection back, and runs again
// once there is as much memory as it has asked for: no search waits for memory with a connection of the database, which all others need.
func (h *held) search(run func() error) error {
	before := h.charged
	late := time.NewTimer(h.waitTimeout)
	defer late.Stop()
	for range mostRuns {
		err := run()
		if !errors.Is(err, errMemory) {
			if err == nil {
				before = h.charged
			}
			h.reset(before)
			return err
		}
		h.reset(before) // so that others can go on
		if err := h.wait(late.C, h.takeWanted); err != nil {
			return err
		}
	}
	h.reset(before)
	return refused()
}

// charge takes memory for objects, or gives it back. If others have it, charge waits. The error is a Status.
func (h *held) charge(bytes int64) error {
	late := time.NewTimer(h.waitTimeout)
	defer late.Stop()
	return h.wait(late.C, func() (<-chan struct{}, error) { return h.take(bytes) })
}

// chargeNow is charge for the store. It returns errMemory rather than wait.
func (h *held) chargeNow(bytes int64) error {
	freed, err := h.take(bytes)
	if freed != nil {
		return errMemory
	}
	return err
}

// wait calls take until it returns no channel, each time that memory was given back.
func (h *held) wait(late <-chan time.Time, take func() (freed <-chan struct{}, err error)) error {
	for {
		freed, err := take()
		if freed == nil || err != nil {
			return err
		}
		select {
		case <-freed:
		case <-h.ctx.Done():
			return h.ctx.Err()
		case <-late:
			return refused()
		}
	}
}

// refused is the error of an answer that has waited too long.
func refused() error {
	refusedAnswers.WithLabelValues("memory").Inc()
	return apierrors.NewTooManyRequests("other answers take the memory for answers: try again later, or ask for smaller pages (limit)", 1)
}

// take takes memory, or returns a channel that is closed when it is worth another try.
func (h *held) take(bytes int64) (freed <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	charged := h.charged + bytes
	more := max(charged, h.reserved) - h.bytes
	switch {
	case bytes > 0 && charged > h.largest:
		refusedAnswers.WithLabelValues("size").Inc()
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestEntityTooLarge, Reason: metav1.StatusReasonRequestEntityTooLarge,
			Message: fmt.Sprintf("the answer has more than %d MiB of objects: ask for pages with limit=500 and withContinue=true, or name "+
				"clusters or namespaces",
				h.largest>>20),
		}}
	case more > h.free():
		h.wanted = charged
		return h.freed.Next(), nil
	}
	h.charged = charged
	h.add(more)
	return nil, nil
}

// takeWanted takes the memory that a search has asked for, as take does. If there is more, it takes as much again, so that the search has
// enough soon.
func (h *held) takeWanted() (freed <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	free := h.bytes + h.free()
	if h.wanted > free {
		return h.freed.Next(), nil
	}
	h.reserved = max(h.wanted, min(2*h.wanted, free, h.largest))
	h.add(h.reserved - h.bytes)
	return nil, nil
}

// reset gives back what was charged since, and what was reserved.
func (h *held) reset(charged int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.charged, h.reserved = charged, 0
	h.add(h.charged - h.bytes)
}

// free returns how much more there is for an answer.
func (h *held) free() int64 { return max(0, min(h.max-h.used, h.share(h.user)-h.users[h.user])) }

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
		b.freed.Send()
	}
}

// release gives all memory back.
func (h *held) release() { h.reset(0) }

// writeTimeout is how long an answer may take to be written. A client that reads slower keeps memory from others.
const writeTimeout = time.Minute

// inTime calls write, and lets what it writes fail after a timeout. If it fails, the connection keeps the deadline: the server could not
// end the answer.
func inTime(w http.ResponseWriter, timeout time.Duration, write func() error) error {
	controller := http.NewResponseController(w)
	bounded := controller.SetWriteDeadline(time.Now().Add(timeout)) == nil // not by the recorders of tests
	err := write()
	if bounded && err == nil {
		controller.SetWriteDeadline(time.Time{}) //nolint:errcheck // the connection is gone
	}
	return err
}
