// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
)

// slowWrites is the writes per second of a slow disk. Each sync takes more than 100 ms.
const slowWrites = 8

// fillDisk, slowDisk and hangDisk are faults of etcd's disks.
func fillDisk(name string, sides []string, members ...string) fault {
	return fault{
		name: "disk of " + name + " full", group: "disk", sides: sides, needs: ownDisk,
		begin: func(ctx context.Context, c *cluster) error {
			return errors.Join(c.eachDisk(members, (*disk).fill), c.writeUntilItFails(ctx))
		},
		end: func(_ context.Context, c *cluster) error { return c.eachDisk(members, (*disk).empty) },
	}
}

func slowDisk(name string, sides []string, members ...string) fault {
	slow := func(c *cluster, writes int) error {
		return c.eachHost(members, func(h *host) error { return h.slow(h.disk, writes) })
	}
	return fault{
		name: "disk of " + name + " slow", group: "disk", sides: sides, needs: ownDisk,
		begin: func(_ context.Context, c *cluster) error { return slow(c, slowWrites) },
		end:   func(_ context.Context, c *cluster) error { return slow(c, 0) },
	}.mayFire(append([]string{etcdSlowDisk}, symptoms...)...)
}

func hangDisk(name string, sides []string, members ...string) fault {
	return fault{
		name: "disk of " + name + " hangs", group: "disk", sides: sides, needs: ownDisk,
		begin: func(ctx context.Context, c *cluster) error {
			return c.eachDisk(members, func(d *disk) error { return d.freeze(ctx) })
		},
		end: func(ctx context.Context, c *cluster) error {
			return c.eachDisk(members, func(d *disk) error { return d.thaw(ctx) })
		},
	}
}

func disks() []fault {
	return []fault{
		fillDisk("etcd", both, etcd).with(etcdAway), slowDisk("etcd", both, etcd),
		hangDisk("etcd", both, etcd).fires(serverErrors).mayFire(slices.Concat(etcdAway.must, etcdAway.may)...),
	}
}

func (c *cluster) eachHost(replicas []string, do func(*host) error) error {
	var errs []error
	for _, h := range c.hostsOf(replicas) {
		errs = append(errs, do(h))
	}
	return errors.Join(errs...)
}

func (c *cluster) eachDisk(replicas []string, do func(*disk) error) error {
	return c.eachHost(replicas, func(h *host) error { return do(h.disk) })
}
