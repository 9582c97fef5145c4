// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/load"
)

const (
	protobuf = "application/vnd.kubernetes.protobuf,application/json"
	// mostPerSecond is more than a server on a small machine can do. A closed loop of DELETEs gets that many objects.
	mostPerSecond = 1500
)

// workload is one row of the results.
type workload struct {
	// Name is the operation, Resource its object, and Credentials those of the client.
	Name, Resource, Credentials string
	// Rate is how often per second the operation runs while times and processor time are measured.
	Rate float64

	// prepare creates what n requests need. It may be nil.
	prepare func(ctx context.Context, f *fixture, n int) error
	// operation returns what to run each time.
	operation func(f *fixture) load.Operation
	// watchers stay open meanwhile, on objects of the resource.
	watchers int
	// fanOut measures events instead of requests.
	fanOut bool
}

// String returns the name that selects the workload and names its profiles.
func (w workload) String() string {
	return strings.NewReplacer(" ", "-").Replace(strings.Join([]string{w.Name, w.Resource, w.Credentials}, "/"))
}

// workloads returns all workloads.
func workloads() []workload {
	var all []workload
	for _, credentials := range []string{certificates, tokens} {
		for _, r := range resources {
			for _, w := range requests(r, credentials) {
				if credentials == tokens && w.Name != "GET" && w.Name != "CREATE" {
					continue // tokens cost each kind of request the same
				}
				w.Resource, w.Credentials = r.Name, credentials
				all = append(all, w)
			}
		}
	}
	for _, watchers := range []int{1000, 5000} {
		for _, r := range resources {
			all = append(all, fanOut(r, watchers))
		}
	}
	return append(all, churn(certificates), churn(tokens), mixed())
}

// requests are the workloads of one kind of request each.
func requests(r resource, credentials string) []workload {
	changed := func(name string) *objects { return newObjects(r, namespace, name+"-"+credentials, objectsEach) }
	updated, applied := changed("update"), changed("apply")
	client := func(f *fixture) *load.Client { return f.clients[credentials] }
	list := func(name, accept, query string) workload {
		request := load.Request{Method: http.MethodGet, Path: r.collection(listNamespace) + query, Accept: accept}
		return workload{Name: "LIST 500 " + name, Rate: 40, operation: func(f *fixture) load.Operation {
			return func(ctx context.Context) error { return client(f).Do(ctx, request) }
		}}
	}
	all := []workload{
		{Name: "GET", Rate: 500, operation: func(f *fixture) load.Operation { return gets(r, client(f)) }},
		list("JSON RV=0", "", "?resourceVersion=0"), list("JSON consistent", "", ""),
	}
	if r == configMaps { // custom resources have no protobuf
		all = append(all, list("protobuf RV=0", protobuf, "?resourceVersion=0"), list("protobuf consistent", protobuf, ""))
	}
	return append(all,
		workload{Name: "CREATE", Rate: 200, operation: func(f *fixture) load.Operation { return f.creates(r, client(f)) }},
		workload{
			Name: "UPDATE", Rate: 200, operation: func(f *fixture) load.Operation { return updated.update(client(f)) },
			prepare: func(ctx context.Context, f *fixture, _ int) error { return updated.reset(ctx, f.admin) },
		},
		workload{
			Name: "APPLY", Rate: 200, operation: func(f *fixture) load.Operation { return applied.apply(client(f)) },
			prepare: func(ctx context.Context, f *fixture, _ int) error { return applied.reset(ctx, client(f)) },
		},
		workload{
			Name: "DELETE", Rate: 200, operation: func(f *fixture) load.Operation { return f.deletes(r, client(f)) },
			prepare: func(ctx context.Context, f *fixture, n int) error {
				create := f.creates(r, f.admin)
				return f.times(ctx, n-f.created[r.Name].count(), func(ctx context.Context, _ int) error { return create(ctx) })
			},
		},
	)
}

func gets(r resource, client *load.Client) load.Operation {
	return func(ctx context.Context) error {
		return client.Do(ctx, r.get(namespace, fmt.Sprintf("get-%d", rand.IntN(objectsEach))))
	}
}

func (f *fixture) creates(r resource, client *load.Client) load.Operation {
	return func(ctx context.Context) error {
		name := fmt.Sprintf("create-%d", f.names.Add(1))
		if err := client.Do(ctx, r.create(namespace, name)); err != nil {
			return err
		}
		f.created[r.Name].add(name)
		return nil
	}
}

func (f *fixture) deletes(r resource, client *load.Client) load.Operation {
	return func(ctx context.Context) error {
		name, found := f.created[r.Name].take()
		if !found {
			return load.ErrNoMore
		}
		return client.Do(ctx, r.delete(namespace, name))
	}
}

// watchName is the name of a workload of so many watches.
func watchName(watchers int) string { return fmt.Sprintf("WATCH %d", watchers) }

// fanOut changes objects, so that all watches together see 20,000 changes a second.
func fanOut(r resource, watchers int) workload {
	const delivered, watched = 20_000, 20
	changed := newObjects(r, watchNamespace(r), "watched", watched)
	return workload{
		Name: watchName(watchers), Resource: r.Name, Credentials: certificates, Rate: float64(delivered / watchers), watchers: watchers, fanOut: true,
		prepare:   func(ctx context.Context, f *fixture, _ int) error { return f.ensureWatched(ctx, r, changed) },
		operation: func(f *fixture) load.Operation { return changed.update(f.clients[certificates]) },
	}
}

// churn opens a connection for each GET.
func churn(credentials string) workload {
	return workload{
		Name: "connection churn", Resource: configMaps.Name, Credentials: credentials, Rate: 60,
		operation: func(f *fixture) load.Operation {
			return func(ctx context.Context) error {
				return f.clients[credentials].DoAlone(ctx, configMaps.get(namespace, "get-0"))
			}
		},
	}
}

// mixed does what controllers do: they watch, read single objects, write what they have read, and sometimes list.
func mixed() workload {
	const watchers = 10
	changed := map[resource]*objects{}
	for _, r := range resources {
		changed[r] = newObjects(r, watchNamespace(r), "mixed", objectsEach)
	}
	return workload{
		Name: "mixed", Resource: "both", Credentials: tokens, Rate: 200, watchers: watchers,
		prepare: func(ctx context.Context, f *fixture, _ int) error {
			for r, objects := range changed {
				if err := f.ensureWatched(ctx, r, objects); err != nil {
					return err
				}
			}
			return nil
		},
		operation: func(f *fixture) load.Operation {
			var operations []load.Operation
			for _, r := range resources {
				operations = append(operations, mixture(f, r, changed[r])...)
			}
			return func(ctx context.Context) error { return operations[rand.IntN(len(operations))](ctx) }
		},
	}
}

// mixture returns operations that run as often as their share, in percent.
func mixture(f *fixture, r resource, changed *objects) []load.Operation {
	client := f.clients[tokens]
	list := load.Request{Method: http.MethodGet, Path: r.collection(watchNamespace(r)) + "?resourceVersion=0"}
	var all []load.Operation
	for _, share := range []struct {
		percent int
		do      load.Operation
	}{
		{50, gets(r, client)},
		{25, changed.update(client)},
		{10, changed.apply(client)},
		{6, f.creates(r, client)},
		{6, f.deletesIfAny(r, client)},
		{3, func(ctx context.Context) error { return client.Do(ctx, list) }},
	} {
		for range share.percent {
			all = append(all, share.do)
		}
	}
	return all
}

// deletesIfAny reads instead if there is nothing to delete.
func (f *fixture) deletesIfAny(r resource, client *load.Client) load.Operation {
	remove, read := f.deletes(r, client), gets(r, client)
	return func(ctx context.Context) error {
		if f.created[r.Name].count() < objectsEach {
			return read(ctx)
		}
		return remove(ctx)
	}
}

// requestsFor returns how many requests a workload sends at most.
func (w workload) requestsFor(offered, closed time.Duration) int {
	return int(w.Rate*offered.Seconds() + mostPerSecond*closed.Seconds())
}
