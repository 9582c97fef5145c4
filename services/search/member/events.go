// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// eventsResource is what the stream of streams.InvolvedEvents reads. Events of events.k8s.io are the same objects.
var eventsResource = schema.GroupVersionResource{Version: "v1", Resource: "events"}

// involvement knows the kinds whose events are copied.
type involvement struct {
	kinds atomic.Pointer[map[schema.GroupKind]bool]
}

// set makes the events of the resources count that rules name, and returns whether there are any.
func (i *involvement) set(lists []*metav1.APIResourceList, rules []Rule) bool {
	kinds := map[schema.GroupKind]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			if slices.ContainsFunc(rules, func(r Rule) bool { return r.wantsEvents(gv.Group, resource.Name) }) {
				kinds[schema.GroupKind{Group: gv.Group, Kind: resource.Kind}] = true
			}
		}
	}
	i.kinds.Store(&kinds)
	return len(kinds) > 0
}

func (r Rule) wantsEvents(group, resource string) bool {
	return (r.Group == "*" || r.Group == group) && (slices.Contains(r.Events, "*") || slices.Contains(r.Events, resource))
}

// involvingEvent is what counts of an event besides its metadata.
type involvingEvent struct {
	InvolvedObject struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Namespace  string `json:"namespace"`
		Name       string `json:"name"`
		UID        string `json:"uid"`
	} `json:"involvedObject"`
	LastTimestamp *time.Time `json:"lastTimestamp"`
	EventTime     *time.Time `json:"eventTime"`
	Series        *struct {
		LastObservedTime *time.Time `json:"lastObservedTime"`
	} `json:"series"`
}

// maxEvent bounds an event that is copied. Kubernetes allows 1 kB of text in one, but any annotations.
const maxEvent = 8 << 10

// maxEvents is how many events of a member are kept: the latest ones. They are trimmed after each trimEvents more. Other limits do not
// count them, because the member forgets its own after an hour.
const maxEvents, trimEvents = 50_000, 5000

// trim keeps the events of a member from becoming too many, after some more were written.
func (b *batch) trim(ctx context.Context, more int) error {
	s := b.stream
	if s.involved == nil {
		return nil
	}
	if s.untrimmed += more; s.untrimmed < trimEvents {
		return nil
	}
	s.untrimmed = 0
	return s.store.TrimEvents(ctx, s.cluster, maxEvents)
}

// of returns what an event is about, or nil if its events do not count. An event was not seen after now, whatever it says: it would stay
// for ever.
func (i *involvement) of(o *store.Object) (*store.Involved, error) {
	if len(o.JSON) > maxEvent {
		return nil, nil // an event that is none
	}
	var e involvingEvent
	if err := json.Unmarshal(o.JSON, &e); err != nil {
		return nil, err
	}
	involved := e.InvolvedObject
	gv, err := schema.ParseGroupVersion(involved.APIVersion)
	kinds := i.kinds.Load()
	if err != nil || kinds == nil || !(*kinds)[schema.GroupKind{Group: gv.Group, Kind: involved.Kind}] {
		return nil, nil //nolint:nilerr // an event about something else
	}
	seen := o.CreatedAt
	for _, at := range []*time.Time{e.EventTime, e.LastTimestamp} {
		if at != nil {
			seen = max(seen, at.Unix())
		}
	}
	if e.Series != nil && e.Series.LastObservedTime != nil {
		seen = max(seen, e.Series.LastObservedTime.Unix())
	}
	seen = min(seen, time.Now().Unix())
	return &store.Involved{Kind: involved.Kind, Namespace: involved.Namespace, Name: involved.Name, UID: involved.UID, SeenAt: seen}, nil
}
