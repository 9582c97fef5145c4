// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/broadcast"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// Phase is what a stream does. The names are those of Clusterpedia.
type Phase string

// The phases.
const (
	// Pending streams have not read anything yet.
	Pending Phase = "Pending"
	// Syncing streams list or watch.
	Syncing Phase = "Syncing"
	// Failed streams try again. They stay so until a list is complete or a watch begins, because a failure may take longer than the pause
	// after it.
	Failed Phase = "Error"
	// Stopped streams leave their resource to another replica as long as that one is alive.
	Stopped Phase = "Stop"
)

// Status is the state of a stream.
type Status struct {
	Kind    streams.Kind `json:"-"`
	Phase   Phase
	Reason  string
	Message string
	// Listing is set while the first list goes on.
	Listing bool
	// Since is when Phase has changed.
	Since time.Time
	// Refused are objects that the database does not take, NAMESPACE/NAME: why. There are at most maxRefused.
	Refused map[string]string
}

// maxRefused bounds the refused objects that a status names.
const maxRefused = 10

// stream copies a resource of a member.
type stream struct {
	source
	cluster string
	kind    streams.Kind
	store   *store.Store
	// abandonedAfter is the constant, except in tests.
	abandonedAfter time.Duration
	// involved is set for the stream of streams.InvolvedEvents. untrimmed counts the events that were written since these were trimmed.
	involved  *involvement
	untrimmed int
	// target is nil until the stream is open in the store. opened is the same for other goroutines, with the details of the kind in the store.
	target *streams.Stream
	opened atomic.Pointer[opening]
	// details are those of the kind now.
	details atomic.Pointer[streams.Details]
	// narrowed is set once the store has objects of the copied namespaces only.
	narrowed bool
	// following is nil unless a watch is open and its initial list is written.
	following atomic.Pointer[following]
	// silence and lateAfter are the constants, except in tests.
	silence, lateAfter time.Duration
	// storeFailures counts those of the store.
	storeFailures atomic.Int64
	// listInterval is the constant, except in tests.
	listInterval time.Duration
	// complete is the last list that was complete.
	complete int64
	// plain is set if streaming lists of the member do not end.
	plain bool
	// refusals counts watches in a row that have failed.
	refusals int
	// refusedObjects bounds what the log says of objects.
	refusedObjects refusals
	// endList ends the list that goes on. It may be called again.
	endList func()
	// answers are those of the member.
	answers *broadcast.Broadcast
	// usage is what the store has of the member.
	usage *usage
	// full is why the last list, or what a watch sent after it, is not stored whole.
	full error
	// flooded are namespaces of whose RBAC objects the watch has dropped events. isFlooded is set if there are some.
	flooded   map[string]bool
	isFlooded atomic.Bool

	mu     sync.Mutex
	status Status
	// savedStatus is the status in the database, in JSON.
	savedStatus string
}

func newStream(cluster string, kind streams.Kind, from source, to *store.Store) *stream {
	if from.decidesRights() {
		from.limiter = from.limiter.rights
		to = to.Throttled(from.limiter.throttle)
	}
	s := &stream{
		source: from, cluster: cluster, kind: kind, store: to, abandonedAfter: abandonedAfter, silence: silence, lateAfter: lateAfter,
		listInterval: listInterval,
		answers:      &broadcast.Broadcast{}, endList: func() {}, flooded: map[string]bool{},
		usage:  &usage{cluster: cluster, store: to, limits: &from.limiter.Limits},
		status: Status{Kind: kind, Phase: Pending, Since: time.Now()}, untrimmed: trimEvents,
	}
	s.details.Store(&kind.Details)
	return s
}

// opening is a stream that is open in the store.
type opening struct {
	target  *streams.Stream
	details *streams.Details
}

// describe makes the store have what the member says about the kind now. It tries again the next time.
func (s *stream) describe(ctx context.Context, details streams.Details) {
	s.details.Store(&details)
	open := s.opened.Load()
	if open == nil || reflect.DeepEqual(*open.details, details) {
		return
	}
	err := s.limiter.throttle(ctx, func() (int, error) { return 0, s.store.Describe(ctx, open.target, details) })
	if err != nil {
		klog.V(2).InfoS("The store does not know the kind of a stream yet", "cluster", s.cluster, "resource", s.resource, "err", err)
		return
	}
	s.opened.CompareAndSwap(open, &opening{open.target, &details})
}

// Status returns the state of the stream.
func (s *stream) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *stream) set(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.status.Phase
	change(&s.status)
	if s.status.Phase != before {
		s.status.Since = time.Now()
	}
}

func (s *stream) syncing() {
	s.set(func(status *Status) {
		if status.Phase, status.Reason, status.Message, status.Listing = Syncing, "", "", false; s.full != nil {
			status.Reason, status.Message = LimitReached, shortened(s.full.Error(), maxMessage)
		}
	})
}

// saveStatus lets other replicas know the state of the stream. If it cannot save the status now, it tries again with the next batch.
func (s *stream) saveStatus(ctx context.Context) {
	status := s.Status()
	text, err := json.Marshal(status)
	if err != nil || s.target == nil || string(text) == s.savedStatus {
		return
	}
	if err := s.store.SaveStatus(ctx, s.target, status); err != nil {
		klog.V(2).InfoS("The state of a stream is not known to other replicas", "cluster", s.cluster, "resource", s.resource, "err", err)
		return
	}
	s.savedStatus = string(text)
}

// run copies until the context ends, or until another replica copies this resource.
func (s *stream) run(ctx context.Context) {
	pauses, limits := retries(), limitRetries()
	for ctx.Err() == nil {
		began := time.Now()
		err := s.copy(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case isLimit(err):
			s.fail(err)
			s.saveStatus(ctx)
			s.pause(ctx, limits.Step(), err)
			continue
		case errors.Is(err, streams.ErrFenced):
			s.set(func(status *Status) { status.Phase, status.Reason, status.Message = Stopped, "TakenOver", err.Error() })
			if !s.awaitAbandoned(ctx) {
				return
			}
			s.target = nil
		case err == nil:
			pauses, limits = retries(), limitRetries()
			if time.Since(began) > time.Second { // a watch that has ended in its time
				continue
			}
		default:
			s.fail(err)
			s.saveStatus(ctx)
		}
		if time.Since(began) > time.Minute {
			pauses = retries()
		}
		s.pause(ctx, pauses.Step(), err)
	}
}

// abandonedAfter is how long the writer of a stream may be silent until another replica takes the stream over. A quiet member sends a
// bookmark each minute.
const abandonedAfter = 3 * time.Minute

// awaitAbandoned returns true when the writer that has taken over has been silent for long, and false if the context ends or the stream
// is gone.
func (s *stream) awaitAbandoned(ctx context.Context) bool {
	for ctx.Err() == nil {
		alive, err := s.store.Alive(ctx, s.target)
		if errors.Is(err, sql.ErrNoRows) {
			return false
		}
		if err == nil && time.Since(alive) > s.abandonedAfter {
			return true
		}
		sleep(ctx, s.abandonedAfter/6)
	}
	return false
}

func (s *stream) fail(err error) {
	message := shortened(err.Error(), maxMessage)
	klog.V(2).InfoS("Stream fails", "cluster", s.cluster, "resource", s.resource, "err", message)
	reason := "MemberFails"
	if failed := apierrors.ReasonForError(err); failed != "" {
		reason = shortened(string(failed), maxReason)
	}
	switch {
	case errors.As(err, new(storeError)):
		reason = "DatabaseFails"
	case isLimit(err):
		reason = LimitReached
	}
	s.set(func(status *Status) { status.Phase, status.Reason, status.Message = Failed, reason, message })
}

// LimitReached is the reason of streams that have stopped because the member sends or has more than search takes.
const LimitReached = "LimitReached"

// A message and a reason may be the member's. A PediaCluster has to hold those of all resources.
const maxMessage, maxReason = 512, 64

// shortened returns a text as one line of at most so many bytes.
func shortened(text string, most int) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text[:min(len(text), most)], ""))
}

// storeError is an error of the store, not of the member.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// copy lists unless the store knows where to go on, and then watches until the watch ends. Most of a thousand streams are here for most of
// the time, so what they have on their stacks counts: less than a quarter of 16 KiB, or it stays so large.
func (s *stream) copy(ctx context.Context) error {
	err := s.begin(ctx)
	if err != nil {
		return err
	}
	if !s.target.Listed || !s.goesOn(s.target.ResourceVersion) {
		err = s.list(ctx, nil)
	} else if err = s.follow(ctx, false, 0); expired(err) {
		s.target.ResourceVersion = "" // the next attempt lists
		return nil
	} else if !isRefused(err) && !isLimit(err) && s.refusesWatch(err) {
		s.target.ResourceVersion = ""
		err = s.list(ctx, err)
	}
	return s.ended(ctx, err)
}

// begin opens the stream in the store.
func (s *stream) begin(ctx context.Context) error {
	if s.target == nil {
		kind, details := s.kind, s.details.Load()
		kind.Details = *details
		target, err := s.store.OpenStream(ctx, s.cluster, kind)
		if err != nil {
			return storeError{err}
		}
		s.target, s.full, s.narrowed = target, nil, len(s.namespaces) == 0 || s.goesOn(target.ResourceVersion)
		s.opened.Store(&opening{target, details})
	}
	if !s.narrowed { // what the spec does not name any more goes, also if the member refuses a list now
		err := s.keepTrying(ctx, func() error { return s.store.RemoveOtherNamespaces(ctx, s.target, s.namespaces) })
		if err != nil {
			return err
		}
		s.narrowed = true
	}
	return nil
}

// ended returns the text about the end of a list or a watch.
func (s *stream) ended(ctx context.Context, err error) error {
	if isRefused(err) || isLimit(err) {
		s.target.ResourceVersion = "" // the watch cannot go on after what it could not read
	}
	if s.decidesRights() && isTooMuch(err) {
		limit := new(LimitError)
		errors.As(err, &limit)
		if failed := s.closeRights(ctx, limit); failed != nil {
			return failed
		}
	}
	return err
}

// closeRights denies all readers what objects grant whose state search does not know: a grant among them may have been
// revoked.
func (s *stream) closeRights(ctx context.Context, why *LimitError) error {
	return s.keepTrying(ctx, func() error {
		return s.limiter.write(ctx, func() error { return s.store.CloseRights(ctx, s.target, shortened(why.Error(), maxMessage)) })
	})
}
