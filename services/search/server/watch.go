// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/objectjson"
	"github.com/tripod-k8s/tripod/services/search/watchcache"
)

const (
	// watchTime is how long a watch lasts at least that gives no timeoutSeconds, as in kube-apiserver. None lasts longer than maxWatchTime:
	// the groups of a reader are those of its beginning.
	watchTime    = 30 * time.Minute
	maxWatchTime = 2 * watchTime
	// bookmarkInterval is the time between two bookmarks.
	bookmarkInterval = time.Minute
	// freeBytes is what each watch may hold of changes. It takes memory of the budget for more.
	freeBytes = 64 << 10
)

// watching is a watch that is served.
type watching struct {
	handler *Handler
	q       *query.Query
	asked   *query.Matcher
	options *metav1.ListOptions
	// resource is what is watched, and kinds are the IDs of that.
	resource schema.GroupVersionResource
	kinds    []int64
	// accessSet is what the reader may read. rightsNews is closed when that may have changed since.
	accessSet  *rights.AccessSet
	rightsNews <-chan struct{}
	// decided is when the authorizer last allowed the watch, and hub the generation of the rights of the hub then.
	decided time.Time
	hub     int64
	events  *eventWriter
	// memory is held for the objects that the watch begins with, and changing for changes that are being written. changes is the size of
	// these.
	memory, changing *held
	changes          int64
	// aging fires when a cluster may have become older than the client accepts. It is nil if there is no limit.
	aging <-chan time.Time
	// at is the revision up to which the client knows everything.
	at int64
	// bookmarked is the revision of the last event or bookmark.
	bookmarked int64
}

// watch answers with the changes of a list.
func (h *Handler) watch(w http.ResponseWriter, req *http.Request, n *Nested) error {
	as, err := accepted(req)
	if err != nil {
		return err
	}
	options, err := listOptions(req)
	if err != nil {
		return err
	}
	q, kind, err := h.question(req, n)
	if err != nil {
		return err
	}
	if err := q.CheckMatch(); err != nil {
		return apierrors.NewBadRequest("a watch decides about each object by itself: " + err.Error())
	}
	if q.OnlyMetadata && as.form == plain {
		as.form = metadataOnly
	}
	kinds, err := h.store.KindIDs(req.Context(), []schema.GroupVersionResource{n.Resource()})
	if err != nil {
		return asStatus(req.Context(), err)
	}
	v, err := accessSetFrom(req.Context())
	if err != nil {
		return err
	}
	if err := checkRequest(req); err != nil {
		return err
	}
	leave, err := h.watches.acquire(req.Context())
	if err != nil {
		return err
	}
	defer leave()
	s := &watching{
		handler: h, q: q, asked: query.NewMatcher(q), options: options, resource: n.Resource(), kinds: kinds, accessSet: v,
		events: newEventWriter(w, req, as.form, kind), at: q.ResourceVersion,
	}
	ctx, cancel := context.WithTimeout(req.Context(), watchTimeout(options))
	defer cancel()
	s.memory, s.changing = h.budget.hold(ctx), h.budget.hold(ctx)
	defer s.memory.release()
	defer s.changing.release()
	return s.serve(ctx)
}

// maxRequest is how many bytes a client may send for a watch, which keeps them, some of them several times.
const maxRequest = 32 << 10

// checkRequest refuses a watch whose request is too large. What the aggregator says about the user does not count.
func checkRequest(req *http.Request) error {
	size := len(req.RequestURI)
	for name, values := range req.Header {
		if name == envelope.Header {
			continue
		}
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if size > maxRequest {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the path, parameters and headers of a watch have more than %d KiB",
			maxRequest>>10))
	}
	return nil
}

func watchTimeout(options *metav1.ListOptions) time.Duration {
	if options.TimeoutSeconds != nil && *options.TimeoutSeconds > 0 {
		return time.Duration(min(*options.TimeoutSeconds, int64(maxWatchTime/time.Second))) * time.Second
	}
	return time.Duration(float64(watchTime) * (rand.Float64() + 1))
}

// initial reports whether the watch begins with the objects that there are.
func (s *watching) initial() bool {
	if s.options.SendInitialEvents != nil {
		return *s.options.SendInitialEvents
	}
	return s.at == 0
}

// serve serves the watch. An error is for the client, before anything was written.
func (s *watching) serve(ctx context.Context) error {
	if s.handler.rights != nil {
		defer s.handler.rights.Follow()()
	}
	s.decided, s.hub, s.rightsNews = time.Now(), s.hubGeneration(), s.rightsChanged()
	var first *initialPage
	if s.at == 0 || s.initial() {
		var err error
		if first, err = s.list(ctx, nil); err != nil {
			return err
		}
		s.at = first.Revision
	} else if err := s.checkRightsSince(ctx); err != nil {
		return s.asStatus(ctx, err)
	}
	// Events from now on follow the list, or the revision that the client has named.
	changes := s.handler.watchCache.Subscribe(s.kinds)
	defer changes.Close()
	next, news, err := s.next(ctx, changes)
	if err == nil {
		err = s.checkRights(ctx, next.Rights)
	}
	if err == nil {
		err = s.checkAge(ctx)
	}
	if err != nil {
		return s.asStatus(ctx, err)
	}
	s.events.stream(ctx, func(ctx context.Context) {
		if s.begin(ctx, first) {
			s.follow(ctx, changes, next, news)
		}
	})
	return nil
}

// follow writes changes until the watch ends.
func (s *watching) follow(ctx context.Context, changes *watchcache.Subscription, next history.History, news <-chan struct{}) {
	var shutdown <-chan struct{}
	if signals := request.ServerShutdownSignalFrom(ctx); signals != nil {
		shutdown = signals.ShuttingDown()
	}
	bookmarks := time.NewTicker(bookmarkInterval)
	defer bookmarks.Stop()
	decisions := time.NewTicker(s.handler.decisionInterval)
	defer decisions.Stop()
	for {
		err := s.writeAll(ctx, next.Transitions)
		switch {
		case errors.Is(err, errGone):
			return
		case err != nil:
			s.failUnlessOver(ctx, err)
			return
		case next.UpTo > s.at:
			s.at, news = next.UpTo, more
		}
		select {
		case <-shutdown:
			return
		case <-ctx.Done():
			s.bookmark() //nolint:errcheck // the watch ends
			return
		case <-bookmarks.C:
			if s.bookmark() != nil {
				return
			}
		case <-s.rightsNews:
			s.rightsNews = s.rightsChanged()
			if err = s.renewRights(ctx); err == nil && s.hub != s.hubGeneration() {
				err = s.decideAgain(ctx)
			}
		case <-decisions.C:
			err = s.decideAgain(ctx)
		case <-s.aging:
			err = s.checkAge(ctx)
		case <-news:
		}
		if err == nil {
			next, news, err = s.next(ctx, changes)
		}
		if err == nil {
			err = s.checkRights(ctx, next.Rights)
		}
		if err != nil {
			s.failUnlessOver(ctx, err)
			return
		}
	}
}

// failUnlessOver writes why the watch ends, if it is not because of its time or its client.
func (s *watching) failUnlessOver(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.fail(s.asStatus(ctx, err))
	}
}

// next returns changes, for which memory is held until the next call.
func (s *watching) next(ctx context.Context, changes *watchcache.Subscription) (h history.History, news <-chan struct{}, err error) {
	s.changing.release()
	err = s.changing.search(func() (err error) {
		s.changes = 0
		h, news, err = changes.Next(ctx, s.at, s.interest(), database.Bounds{Page: freeBytes, Charge: s.charge}, s.acquire)
		return err
	})
	return h, news, err
}

// acquire takes a slot for reading the database, which watches need that cannot keep up with the changes.
func (s *watching) acquire(ctx context.Context) (release func(), err error) {
	return s.handler.searches.acquire(ctx, s.handler.waitTimeout)
}

// charge takes memory for changes.
func (s *watching) charge(bytes int64) error {
	before := max(s.changes, freeBytes)
	s.changes += bytes
	if over := max(s.changes, freeBytes) - before; over > 0 {
		return s.changing.chargeNow(over)
	}
	return nil
}

// errRights ends a watch whose reader may see something else than at its beginning.
var errRights = errors.New("the rights of the reader have changed")

// rightsChanged returns a channel that is closed when rights may have changed that count for the reader.
func (s *watching) rightsChanged() <-chan struct{} {
	if s.handler.rights == nil {
		return nil
	}
	return s.handler.rights.Changed()
}

// hubGeneration is the generation of the rights of the hub, as far as they were read.
func (s *watching) hubGeneration() int64 {
	if s.handler.rights == nil {
		return 0
	}
	return s.handler.rights.HomeGeneration()
}

// checkRights returns errRights if rights that were changed up to a revision show the reader something else of the resource than at the
// beginning of the watch.
func (s *watching) checkRights(ctx context.Context, changed int64) error {
	if s.accessSet.IsUnlimited() || changed <= s.accessSet.AsOf() {
		return nil
	}
	return s.renewRights(ctx)
}

// checkRightsSince returns errRights if rights may have changed since the revision that the client knows. What the reader saw at that
// revision is not known.
func (s *watching) checkRightsSince(ctx context.Context) error {
	release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if !s.accessSet.IsUnlimited() || s.q.SameClusters {
		same, err := s.handler.store.For(s.accessSet.Filter()).SameSince(ctx, s.at, s.resource.GroupResource(), s.q.Clusters)
		if err == nil && !same {
			err = errRights
		}
		if err != nil || s.accessSet.IsUnlimited() {
			return err
		}
	}
	clusters := s.q.Clusters.In
	if home := s.accessSet.Hub(); home != "" && len(clusters) > 0 {
		clusters = append(slices.Clone(clusters), home)
	}
	changed, err := s.handler.store.RightsChangedSince(ctx, s.at, clusters)
	if err == nil && changed {
		err = errRights
	}
	return err
}

func (s *watching) renewRights(ctx context.Context) error {
	if s.accessSet.IsUnlimited() {
		return nil
	}
	now, err := s.handler.rights.Renew(ctx, s.accessSet)
	if err != nil {
		return err
	}
	return s.goOnWith(now)
}

// goOnWith returns errRights if the reader sees something else now.
func (s *watching) goOnWith(now *rights.AccessSet) error {
	if !now.Same(s.accessSet, s.resource.GroupResource(), s.q.Clusters.Has) {
		return errRights
	}
	s.accessSet = now
	return nil
}

// undecided is how long a watch goes on while it is unknown whether it is still allowed.
const undecided = time.Minute

// decideAgain returns errRights if the watch would not be allowed now, or if it would show something else. Grants of the hub may have gone.
func (s *watching) decideAgain(ctx context.Context) error {
	hub := s.hubGeneration()
	now, err := decideAgain(ctx)
	switch {
	case err != nil && time.Since(s.decided) < undecided:
		klog.V(2).InfoS("It is not known whether a watch is still allowed", "err", err)
		return nil
	case err != nil:
		return unavailable("it is not known now whether the watch is still allowed: try again later")
	case now == nil:
		return errRights
	}
	s.decided, s.hub = time.Now(), hub
	return s.goOnWith(now)
}

// more is a channel for a watch that has not read everything.
var more = func() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}()

// bookmark sends the client a bookmark, unless it has that revision.
func (s *watching) bookmark() error {
	if !s.options.AllowWatchBookmarks || s.at == s.bookmarked {
		return nil
	}
	s.bookmarked = s.at
	return s.inTime(func() error {
		if err := s.events.bookmark(s.at, false); err != nil {
			return err
		}
		return s.events.flush()
	})
}

// interest is what the watch may be about.
func (s *watching) interest() *history.Interest {
	return &history.Interest{Filter: s.accessSet.Filter(), Resource: s.resource.GroupResource(), Query: s.q}
}

// inTime lets writing fail if the client takes too long. An unread watch would hold changes, and outlast the reader's rights.
func (s *watching) inTime(write func() error) error {
	return inTime(s.events.response, s.handler.writeTimeout, write)
}

// fail writes why the watch ends.
func (s *watching) fail(err error) {
	s.inTime(func() error { return s.events.fail(err) }) //nolint:errcheck // the watch ends
}

// errGone ends a watch whose client takes nothing.
var errGone = errors.New("the client of the watch is gone")

// writeAll writes those of some transitions that the client has asked for.
func (s *watching) writeAll(ctx context.Context, transitions []*history.Transition) error {
	wrote := false
	for _, t := range transitions {
		of := t.Subject()
		if !s.accessSet.Allows(of.Cluster, s.resource.GroupResource(), of.Namespace, of.Name) {
			continue
		}
		event, object, err := s.judge(ctx, t)
		switch {
		case err != nil:
			return err
		case event == "":
			continue
		case s.inTime(func() error { return s.events.raw(event, object) }) != nil:
			return errGone
		}
		wrote, s.bookmarked = true, t.Revision
	}
	if wrote && s.inTime(s.events.flush) != nil {
		return errGone
	}
	return nil
}

// judge returns the event that a transition is for the client, or none. It takes a slot to decide about a whole object.
func (s *watching) judge(ctx context.Context, t *history.Transition) (event watch.EventType, object []byte, err error) {
	if len(s.q.Fields)+len(s.q.Words) > 0 || s.events.as != plain {
		done, err := s.look(ctx)
		if err != nil {
			return "", nil, err
		}
		defer done()
	}
	before, after := t.Before != nil && s.asked.Matches(t.Before), t.After != nil && s.asked.Matches(t.After)
	switch {
	case before && after:
		event, object = watch.Modified, t.After.JSON
	case after:
		event, object = watch.Added, t.After.JSON
	case before: // deleted, or not of the selection any more
		event, object = watch.Deleted, objectjson.WithRevision(t.Before.JSON, t.Revision)
	default:
		return "", nil, nil
	}
	object, err = s.events.shown(t.Subject().Cluster, object)
	return event, object, err
}

// look takes a slot to decode a whole object, which may be large and cost many times what it costs to send it.
func (s *watching) look(ctx context.Context) (done func(), err error) {
	return s.handler.judged.acquire(ctx, s.handler.waitTimeout)
}

// asStatus returns the Status for the client of an error.
func (s *watching) asStatus(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errRights), errors.Is(err, store.ErrOtherRights), errors.Is(err, store.ErrPosition):
		return apierrors.NewResourceExpired(err.Error())
	case errors.Is(err, history.ErrPruned), errors.Is(err, watchcache.ErrReplaced):
		return apierrors.NewResourceExpired("too old resource version: " + err.Error())
	case errors.Is(err, history.ErrFuture):
		current, err := s.handler.store.Revision(context.WithoutCancel(ctx))
		if err != nil {
			return asStatus(ctx, err)
		}
		return tooLarge(s.at, current)
	}
	return asStatus(ctx, err)
}

// tooLarge is the error for a revision that is in the future. client-go lists again when it reads this.
func tooLarge(revision, current int64) error {
	return storage.NewTooLargeResourceVersionError(uint64(revision), uint64(current), 1)
}
