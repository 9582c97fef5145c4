// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/local/names"
	"github.com/tripod-k8s/tripod/local/up"
	"github.com/tripod-k8s/tripod/services/list"
)

// liveInterval is how many seconds a page is shown that is live. Its own numbers take one more.
const liveInterval = "1"

// servicesPage is the model of the services of the instance on this machine.
type servicesPage struct {
	layout
	// Live is whether the browser loads the page again by itself, which a person has to ask for.
	Live     bool
	Services []shownService
	At       string
}

// shownService are the replicas of a service.
type shownService struct {
	Name     string
	Ready    int
	Replicas []shownReplica
}

type shownReplica struct{ Name, State, Requests, Share, Memory, Age, Restarts, Version, Address, Message string }

// showServices shows what `tripod status` knows.
func (c *console) showServices(req *http.Request) (model, error) {
	statuses, err := c.services(req.Context())
	if err != nil {
		return nil, err
	}
	page := &servicesPage{
		layout: layout{Title: "Services"}, Live: req.URL.Query().Get("live") != "", At: time.Now().UTC().Format("15:04:05 UTC"),
	}
	for i := range statuses {
		status := &statuses[i]
		at := slices.IndexFunc(page.Services, func(s shownService) bool { return s.Name == status.Component })
		if at < 0 {
			at = len(page.Services)
			page.Services = append(page.Services, shownService{Name: status.Component})
		}
		service := &page.Services[at]
		if status.Ready {
			service.Ready++
		}
		service.Replicas = append(service.Replicas, replicaOf(status))
	}
	slices.SortStableFunc(page.Services, func(a, b shownService) int { return floorOf(a.Name) - floorOf(b.Name) })
	return page, nil
}

// floorOf returns the place of a process on the way of a request: services of Tripod, from the aggregators down, all others, and etcd.
func floorOf(name string) int {
	services := list.Names()
	switch at := slices.Index(services, serviceOf(name)); {
	case at >= 0:
		return at
	case name == names.Etcd:
		return len(services) + 1
	}
	return len(services)
}

// serviceOf returns the service whose program a process runs: extensions for a partition of it.
func serviceOf(name string) string {
	if _, isPartition := addresses.PartitionOf(name); isPartition {
		return list.Extensions
	}
	return name
}

func replicaOf(status *up.Status) shownReplica {
	r := shownReplica{
		Name: status.Replica, State: "not ready",
		Memory: fmt.Sprintf("%d MiB", status.ResidentMemoryBytes>>20), Restarts: fmt.Sprint(status.Restarts),
		Version: status.Version, Address: status.Address, Message: status.Message,
	}
	if status.Ready {
		r.State = "ready"
	}
	if status.PID != 0 {
		r.Age = ageOf(status.StartTime)
	}
	if status.Requests != nil {
		r.Requests = fmt.Sprint(*status.Requests)
	}
	if status.Share != nil {
		r.Share = fmt.Sprintf("%.0f%%", 100**status.Share)
	}
	return r
}
