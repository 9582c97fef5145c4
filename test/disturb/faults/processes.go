// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"time"
)

// kill is a fault that kills replicas and starts them again.
func kill(name string, sides []string, short bool, replicas ...string) fault {
	return fault{
		name: "kill " + name, group: "kill", sides: sides, short: short, coresAway: cores(replicas...),
		begin: func(_ context.Context, c *cluster) error { return c.kill(c.resolve(replicas)...) },
		end:   func(_ context.Context, c *cluster) error { return c.revive(c.resolve(replicas)...) },
	}
}

// cores returns how many of these replicas are core's.
func cores(replicas ...string) (count int) {
	for _, name := range replicas {
		if strings.HasPrefix(name, "core-") {
			count++
		}
	}
	return count
}

// comparedWith sets the fault of kube-apiserver that compares best.
func (f fault) comparedWith(like string) fault {
	f.like = like
	return f
}

func ends() []fault {
	const one, all = "kill one aggregator", "kill all aggregators"
	return []fault{
		kill("one aggregator", bothOrSingle, false, "front-0").with(aggregatorAway).alone(aggregatorsAway),
		kill("one core", oursOrSingle, true, "core-0").comparedWith(one).with(replicaAway).alone(coreAway),
		kill("one extensions", oursOrSingle, false, "extensions-0").comparedWith(one).with(replicaAway).alone(extensionsAway),
		kill("all aggregators", both, false, "front-0", "front-1").with(aggregatorsAway),
		kill("all core", ours, false, "core-0", "core-1").comparedWith(all).with(coreAway),
		kill("all extensions", ours, false, "extensions-0", "extensions-1").comparedWith(all).with(extensionsAway),
		kill("etcd", bothOrSingle, true, etcd).with(etcdAway),
	}
}

// stop is a fault that stops a replica for a while, as on a machine that stalls.
func stop(name string, sides []string, short bool, replica string) fault {
	return fault{
		name: "stop and continue " + name, group: "stop", sides: sides, short: short, cuts: true,
		begin: func(_ context.Context, c *cluster) error { return c.replicas[c.resolve([]string{replica})[0]].Pause() },
		end:   func(_ context.Context, c *cluster) error { return c.replicas[c.resolve([]string{replica})[0]].Resume() },
	}
}

func stops() []fault {
	const like = "stop and continue one aggregator"
	return []fault{
		stop("one aggregator", bothOrSingle, false, "front-0").with(aggregatorAway).alone(aggregatorsAway),
		stop("one core", oursOrSingle, true, "core-0").comparedWith(like).with(replicaAway).alone(coreAway),
		stop("one extensions", oursOrSingle, false, "extensions-0").comparedWith(like).with(replicaAway).alone(extensionsAway),
		stop("etcd", bothOrSingle, false, etcd).with(etcdAway),
	}
}

// clockJumps set the clock of one process an hour forward or back.
func clockJumps() []fault {
	var all []fault
	for _, one := range []struct {
		name, replica string
		sides         []string
	}{
		{"one aggregator", "front-0", both}, {"one core", "core-0", ours}, {"the other core", "core-1", ours},
		{"one extensions", "extensions-0", ours}, {"etcd", etcd, ours},
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
	name := c.resolve([]string{replica})[0]
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
