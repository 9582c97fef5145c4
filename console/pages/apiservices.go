// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/console/searchclient"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/apiservices"
	"github.com/tripod-k8s/tripod/services/list"
)

const (
	apiServicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"
	// ownersInterval is how old the list of APIServices must be until it is read again. A slow one is read so rarely that it takes a part of
	// 1/ownersCost of the time.
	ownersInterval = 5 * time.Second
	ownersCost     = 200
	// maxAPIServices is how many an owner shows. Those that are not available come first.
	maxAPIServices = 100
)

// shownOwner are the APIServices that a service serves.
type shownOwner struct {
	Name           string
	All, Available int
	APIServices    []shownAPIService
	LeftOff        int
}

type shownAPIService struct{ Name, Available, Mark, Kind, Since, Why string }

// owners remember the APIServices of a reader for some seconds.
type owners struct {
	mu    sync.Mutex
	until time.Time
	list  []shownOwner
	note  string
}

// read returns the owners of APIServices, or why the reader does not see them.
func (o *owners) read(ctx context.Context, hub *searchclient.Client) (shown []shownOwner, note string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	began := time.Now()
	if began.Before(o.until) {
		return o.list, o.note
	}
	o.list, o.note = nil, ""
	var all apiregistrationv1.APIServiceList
	answer, err := hub.Get(ctx, apiServicesPath, nil, "application/json")
	if err == nil {
		err = json.Unmarshal(answer.Body, &all)
	}
	refused := (*searchclient.Error)(nil)
	switch {
	case errors.As(err, &refused) && refused.Code == http.StatusForbidden:
		o.note = "You may not list APIServices."
	case err != nil:
		o.note = "The APIServices cannot be read: " + err.Error()
	default:
		o.list = ownersOf(all.Items)
	}
	o.until = time.Now().Add(max(ownersInterval, ownersCost*time.Since(began)))
	return o.list, o.note
}

func ownersOf(all []apiregistrationv1.APIService) []shownOwner {
	byName := map[string]*shownOwner{}
	for i := range all {
		name := ownerOf(&all[i])
		if byName[name] == nil {
			byName[name] = &shownOwner{Name: name}
		}
		owner, shown := byName[name], showAPIService(&all[i])
		owner.All++
		if shown.Available == "yes" {
			owner.Available++
		}
		owner.APIServices = append(owner.APIServices, shown)
	}
	var owners []shownOwner
	for _, owner := range byName {
		slices.SortFunc(owner.APIServices, func(a, b shownAPIService) int {
			return strings.Compare(a.Available+a.Name, b.Available+b.Name) // "no" and "unknown" before "yes"
		})
		owner.LeftOff = max(0, len(owner.APIServices)-maxAPIServices)
		owner.APIServices = slices.Clip(owner.APIServices[:len(owner.APIServices)-owner.LeftOff])
		owners = append(owners, *owner)
	}
	slices.SortFunc(owners, func(a, b shownOwner) int { return strings.Compare(a.Name, b.Name) })
	return owners
}

// ownerOf returns the service that serves an APIService.
func ownerOf(s *apiregistrationv1.APIService) string {
	switch ref := s.Spec.Service; {
	case ref == nil && apiservices.Builtin(s.Spec.Group):
		return list.Core
	case ref == nil:
		return list.Extensions
	case ref.Namespace == trust.Namespace:
		return ref.Name
	default:
		return "aggregated API server " + ref.Namespace + "/" + ref.Name
	}
}

func showAPIService(s *apiregistrationv1.APIService) shownAPIService {
	shown := shownAPIService{Name: s.Name, Available: "unknown", Mark: "…", Kind: "reserved"}
	for _, condition := range s.Status.Conditions {
		if condition.Type != apiregistrationv1.Available {
			continue
		}
		shown.Since = ageOf(condition.LastTransitionTime.Time)
		switch condition.Status {
		case apiregistrationv1.ConditionTrue:
			shown.Available, shown.Mark, shown.Kind = "yes", "✓", "good"
		case apiregistrationv1.ConditionFalse:
			shown.Available, shown.Mark, shown.Kind = "no", "✗", "bad"
		}
		shown.Why = strings.TrimSuffix(condition.Reason+": "+condition.Message, ": ")
	}
	return shown
}
