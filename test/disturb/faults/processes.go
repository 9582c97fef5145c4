// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ends are processes that die and come back.
func ends() []fault {
	kill := func(name string, sides []string, short bool, replicas ...string) fault {
		return fault{
			name: "kill " + name, group: "kill", sides: sides, short: short,
			begin: func(_ context.Context, c *cluster) error { return c.kill(c.own(replicas)...) },
			end:   func(_ context.Context, c *cluster) error { return c.revive(c.own(replicas)...) },
		}
	}
	return []fault{
		kill("one aggregator", both, false, "front-0"),
		kill("one core", []string{tripod}, true, "core-0"),
		kill("one extensions", []string{tripod}, false, "extensions-0"),
		kill("all aggregators", both, false, "front-0", "front-1"),
		kill("all core", []string{tripod}, false, "core-0", "core-1"),
		kill("all extensions", []string{tripod}, false, "extensions-0", "extensions-1"),
		kill("etcd", both, true, etcd),
	}
}

// own replaces front-N by the names of the side.
func (c *cluster) own(replicas []string) []string {
	own := slices.Clone(replicas)
	for i, name := range own {
		for n, front := range c.fronts {
			if name == fmt.Sprintf("front-%d", n) {
				own[i] = front
			}
		}
	}
	return own
}

// stops are processes that do nothing for a while, as on a machine that stalls.
func stops() []fault {
	stop := func(name string, sides []string, short bool, replica string) fault {
		return fault{
			name: "stop and continue " + name, group: "stop", sides: sides, short: short, cuts: true,
			begin: func(_ context.Context, c *cluster) error { return c.replicas[c.own([]string{replica})[0]].Pause() },
			end:   func(_ context.Context, c *cluster) error { return c.replicas[c.own([]string{replica})[0]].Resume() },
		}
	}
	return []fault{
		stop("one aggregator", both, false, "front-0"),
		stop("one core", []string{tripod}, true, "core-0"),
		stop("one extensions", []string{tripod}, false, "extensions-0"),
		stop("etcd", both, false, etcd),
	}
}

// memories are limits of memory that are hit: a process gets no more than it uses.
func memories() []fault {
	limit := func(name, replica string, sides []string) fault {
		return fault{
			name: "memory limit of " + name, group: "memory", sides: sides, needs: limits,
			begin: func(_ context.Context, c *cluster) error {
				h := c.hostsOf([]string{replica})[0]
				uses, err := h.usesMemory()
				// The kernel refuses a limit that it cannot reach by taking back what it can.
				for more := int64(0); err == nil && more <= 16<<20; more += 1 << 20 {
					if err := h.limitMemory(uses + more); err == nil {
						return nil
					}
				}
				return errors.Join(err, errors.New("the kernel refuses all limits"))
			},
			end: func(_ context.Context, c *cluster) error {
				return c.hostsOf([]string{replica})[0].limitMemory(0)
			},
		}
	}
	return []fault{
		limit("one aggregator", "front-0", both), limit("one core", "core-0", []string{tripod}),
		limit("one extensions", "extensions-0", []string{tripod}), limit("etcd", etcd, both),
	}
}

// clockJumps set the clock of one process an hour ahead, or back.
func clockJumps() []fault {
	var all []fault
	for _, one := range []struct {
		name, replica string
		sides         []string
	}{
		{"one aggregator", "front-0", both}, {"one core", "core-0", []string{tripod}}, {"the other core", "core-1", []string{tripod}},
		{"one extensions", "extensions-0", []string{tripod}}, {"etcd", etcd, []string{tripod}},
	} {
		for _, jump := range []struct {
			name string
			by   time.Duration
		}{{"ahead", time.Hour}, {"back", -time.Hour}} {
			all = append(all, fault{
				name: "clock of " + one.name + " an hour " + jump.name, group: "clock", sides: one.sides, needs: clocks, cuts: jump.by < 0, // so that certificates live longer
				begin: func(_ context.Context, c *cluster) error {
					return c.withClock(one.replica, func(k *clock) error { return k.jump(jump.by) })
				},
				end: func(_ context.Context, c *cluster) error { return c.withClock(one.replica, (*clock).back) },
			})
		}
	}
	return all
}

func (c *cluster) withClock(replica string, do func(*clock) error) error {
	name := c.own([]string{replica})[0]
	pid := c.process(name).PID()
	if c.clocks[name] == nil || c.clocks[name].pid != pid {
		k, err := openClock(pid)
		if err != nil {
			return err
		}
		c.clocks[name] = k
	}
	return do(c.clocks[name])
}
