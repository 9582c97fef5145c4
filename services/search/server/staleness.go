// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

const (
	// stalenessHeader has the age of each cluster in seconds, if the client asks for it: "east=3.2, west=inf", the oldest first.
	stalenessHeader = "Search-Staleness"
	// namedStale bounds the clusters in the header, and in the causes of an error.
	namedStale = 100
	// causeStale is the type of the causes of an error.
	causeStale metav1.CauseType = "ClusterStale"
)

// oldestFirst returns the clusters in the order of their age.
func oldestFirst(syncedAt map[string]time.Time) []string {
	return slices.SortedFunc(maps.Keys(syncedAt), func(a, b string) int { return cmp.Or(syncedAt[a].Compare(syncedAt[b]), cmp.Compare(a, b)) })
}

func stalenessOf(syncedAt map[string]time.Time) string {
	var ages []string
	for _, cluster := range oldestFirst(syncedAt)[:min(len(syncedAt), namedStale)] {
		age := "inf"
		if at := syncedAt[cluster]; !at.IsZero() {
			age = fmt.Sprintf("%.1f", max(time.Since(at), 0).Seconds())
		}
		ages = append(ages, cluster+"="+age)
	}
	return strings.Join(ages, ", ")
}

// setHeader adds the age of an answer, if the client has asked for it.
func (a *answer) setHeader(header http.Header) {
	if a.staleness != "" {
		header.Set(stalenessHeader, a.staleness)
	}
}

// warnStale names the clusters of an answer that were not synced for long.
func warnStale(ctx context.Context, syncedAt map[string]time.Time) {
	for _, cluster := range slices.Sorted(maps.Keys(syncedAt)) {
		if at := syncedAt[cluster]; time.Since(at) > streams.StaleAfter {
			warning.AddWarning(ctx, "", fmt.Sprintf("cluster %s may have changed: %s", cluster, sinceSynced(at)))
		}
	}
}

func sinceSynced(syncedAt time.Time) string {
	if syncedAt.IsZero() {
		return "its first list is not complete yet"
	}
	return fmt.Sprintf("it was not synced for %s", time.Since(syncedAt).Round(time.Second))
}

// asStale returns the Status for clients if clusters are older than they accept, or nil if that is not the error.
func asStale(err error) error {
	var stale *store.StaleError
	if !errors.As(err, &stale) {
		return nil
	}
	names := oldestFirst(stale.SyncedAt)
	refused := apierrors.NewServiceUnavailable(fmt.Sprintf("clusters older than maxStaleness=%s, %d of them: %s",
		stale.Max, len(names), strings.Join(names[:min(len(names), namedStale)], ", ")))
	details := &metav1.StatusDetails{RetryAfterSeconds: 1}
	for _, name := range names[:min(len(names), namedStale)] {
		details.Causes = append(details.Causes, metav1.StatusCause{Type: causeStale, Field: "clusters[" + name + "]",
			Message: sinceSynced(stale.SyncedAt[name])})
	}
	refused.ErrStatus.Details = details
	return refused
}

// stalenessOfOne answers the parameters maxStaleness and withStaleness of a request for one object. Its other parameters do not count.
func (h *Handler) stalenessOfOne(req *http.Request, n *Nested) (string, error) {
	values := req.URL.Query()
	maps.DeleteFunc(values, func(name string, _ []string) bool { return name != "maxStaleness" && name != "withStaleness" })
	q, err := query.Parse(values)
	if err != nil {
		return "", apierrors.NewBadRequest(err.Error())
	}
	if q.MaxStaleness == 0 && !q.WithStaleness {
		return "", nil
	}
	q.Clusters = query.Choice{In: []string{n.Cluster}}
	syncedAt, err := h.store.Ages(req.Context(), []schema.GroupVersionResource{n.Resource()}, q)
	if err != nil {
		return "", asStatus(req.Context(), err)
	}
	if !q.WithStaleness {
		return "", nil
	}
	return stalenessOf(syncedAt), nil
}

// checkAge fails if a cluster is older than the client of a watch accepts. It sets when to look again: not before a cluster could be too
// old that is not synced any more.
func (s *watching) checkAge(ctx context.Context) error {
	limit := s.q.MaxStaleness
	if limit == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(limit, time.Second)) // a later answer is too old
	defer cancel()
	release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	q := *s.q
	q.WithStaleness = true
	oldest := time.Now()
	err = s.handler.asReader(ctx, func(_ *rights.AccessSet, from *store.Store) error {
		syncedAt, err := from.Ages(ctx, []schema.GroupVersionResource{s.resource}, &q)
		for _, at := range syncedAt {
			if at.Before(oldest) {
				oldest = at
			}
		}
		return err
	})
	s.aging = time.After(time.Until(oldest.Add(limit + time.Millisecond)))
	return err
}
