// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

// end is one end of a partition.
type end struct {
	name     string
	replicas []string
}

// partitions separate one replica, or all of a service, from another service. They drop all packets, or those of one direction.
func partitions() []fault {
	var (
		oneCore       = end{"one core", []string{"core-0"}}
		oneExtensions = end{"one extensions", []string{"extensions-0"}}
		oneAggregator = end{"one aggregator", []string{"front-0"}}
		aggregators   = end{"aggregators", []string{"front-0", "front-1"}}
		allCore       = end{"core", []string{"core-0", "core-1"}}
		allExtensions = end{"extensions", []string{"extensions-0", "extensions-1"}}
		store         = end{etcd, []string{etcd}}
	)
	comparable := slices.Concat(oneCore.from(store, ours), oneExtensions.from(store, ours))
	for i, like := range oneAggregator.from(store, both) {
		comparable[i].like, comparable[i+3].like = like.name, like.name
	}
	return slices.Concat(
		expecting(replicaAway, oneCore.from(aggregators, ours)),
		expecting(replicaAway, oneExtensions.from(aggregators, ours)),
		expecting(expectation{must: []string{replicaDown, tokensUnknown}, may: coreAway.may}, oneAggregator.from(allCore, ours)),
		later(10*time.Second, oneExtensions.from(allCore, ours)), later(10*time.Second, allExtensions.from(allCore, ours)),
		expecting(expectation{must: []string{replicaDown}, may: symptoms}, comparable), oneAggregator.from(store, both),
	)
}

// later sets the shortest duration of faults.
func later(atLeast time.Duration, faults []fault) []fault {
	for i := range faults {
		faults[i].atLeast = atLeast
	}
	return faults
}

// expecting sets the alerts of faults.
func expecting(e expectation, faults []fault) []fault {
	for i := range faults {
		faults[i] = faults[i].with(e)
	}
	return faults
}

// from returns the partitions between two ends.
func (e end) from(other end, sides []string) []fault {
	return []fault{
		partition(e.name+" ⇹ "+other.name, sides, [2]end{e, other}, [2]end{other, e}),
		partition(e.name+" ↛ "+other.name, sides, [2]end{e, other}),
		partition(other.name+" ↛ "+e.name, sides, [2]end{other, e}),
	}
}

// partition is a fault that drops packets. Each way has a sender and a receiver.
func partition(name string, sides []string, ways ...[2]end) fault {
	return fault{
		name: "partition " + name, group: "partition", sides: sides, needs: network, cuts: true, short: name == "one core ⇹ aggregators",
		begin: func(ctx context.Context, c *cluster) error {
			var errs []error
			for _, way := range ways {
				for _, h := range c.hostsOf(way[1].replicas) {
					errs = append(errs, h.drop(ctx, c.hostsOf(way[0].replicas)...))
				}
			}
			return errors.Join(errs...)
		},
		end: func(ctx context.Context, c *cluster) error {
			return c.eachHost(c.all(), func(h *host) error { return h.connect(ctx) })
		},
	}
}

// hostsOf returns the hosts of replicas. Some names are roles.
func (c *cluster) hostsOf(names []string) []*host {
	var hosts []*host
	for _, name := range c.resolve(names) {
		hosts = append(hosts, c.machine.hosts[name])
	}
	return hosts
}

// losses are networks that lose packets everywhere.
func losses() []fault {
	return []fault{{
		name: "1 % of packets lost", group: "loss", sides: both, needs: network,
		begin: func(ctx context.Context, c *cluster) error {
			return c.eachHost(c.all(), func(h *host) error { return h.lose(ctx, 1) })
		},
		end: func(ctx context.Context, c *cluster) error {
			return c.eachHost(c.all(), func(h *host) error { return h.connect(ctx) })
		},
	}}
}

// lies are wrong DNS answers for the names of backends.
func lies() []fault {
	lie := func(name string, tell func(*cluster)) fault {
		return fault{
			name: "DNS " + name, group: "DNS", sides: ours, needs: network,
			begin: func(_ context.Context, c *cluster) error { tell(c); return nil },
			end:   func(_ context.Context, c *cluster) error { c.tellTheTruth(); return nil },
		}
	}
	return []fault{
		lie("says that core is where extensions is", func(c *cluster) {
			c.names.set("core", c.machine.hosts["extensions-0"].address, c.machine.hosts["extensions-1"].address)
		}),
		lie("says that core is at an unused address", func(c *cluster) { c.names.set("core", c.machine.address(unused)) }),
		lie("knows one core only", func(c *cluster) { c.names.set("core", c.machine.hosts["core-1"].address) }),
		lie("knows no core", func(c *cluster) { c.names.set("core") }),
		lie("is silent", func(c *cluster) { c.names.answer(false) }),
	}
}
