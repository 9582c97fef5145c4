// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// starved is the part of a processor that a busy process gets, and period how often it gets it, as for containers in Kubernetes.
const (
	starved = 0.02
	period  = 100 * time.Millisecond
)

// starve is a fault in which a process has far too little processor time for what it has to do. It goes on, late.
func starve(name string, sides []string, replica, like string) fault {
	return fault{
		name: name + " busy", group: "overload", sides: sides, needs: limits, like: like, cuts: true, atLeast: 10 * time.Second,
		begin: func(_ context.Context, c *cluster) error {
			return c.hostsOf([]string{replica})[0].limitProcessor(starved)
		},
		end: func(_ context.Context, c *cluster) error { return c.hostsOf([]string{replica})[0].limitProcessor(0) },
	}
}

// stutter is a fault in which etcd runs for a quarter of the time, half a second in a row. It takes connections, and answers some requests late.
func stutter() fault {
	const runs, stands = 500 * time.Millisecond, 1500 * time.Millisecond
	var stop context.CancelFunc
	var working sync.WaitGroup
	var failed error
	return fault{
		name: "etcd half dead", group: "overload", sides: bothOrSingle, cuts: true, atLeast: 10 * time.Second,
		begin: func(ctx context.Context, c *cluster) error {
			ctx, stop = context.WithCancel(ctx)
			member := c.replicas[c.resolve([]string{etcd})[0]]
			working.Go(func() {
				for ctx.Err() == nil && failed == nil {
					if failed = member.Pause(); failed == nil {
						sleep(ctx, stands)
						failed = member.Resume()
						sleep(ctx, runs)
					}
				}
			})
			return nil
		},
		end: func(context.Context, *cluster) error {
			stop()
			working.Wait()
			return failed
		},
	}
}

func overloads() []fault {
	core, aggregator := end{"the only core", []string{"core-0"}}, end{"the only aggregator", []string{"front-0"}}
	blackhole := partition(core.name+" ⇹ "+aggregator.name, []string{singleTripod}, [2]end{core, aggregator}, [2]end{aggregator, core})
	blackhole.group = "overload"
	blackhole.alerts = coreAway
	return []fault{
		// A scrape ends too early to reach it (prometheus.go).
		starve("one aggregator", bothOrSingle, "front-0", "").fires(aggregatorDown).mayFire(symptoms...).alone(aggregatorsAway),
		starve("one core", oursOrSingle, "core-0", "one aggregator busy").fires(replicaBusy).mayFire(symptoms...),
		starve("one extensions", oursOrSingle, "extensions-0", "one aggregator busy").fires(replicaBusy).mayFire(symptoms...),
		stutter().fires(slowRequests).mayFire(slices.Concat(symptoms, []string{etcdSlowDisk, storageDown, replicaDown, backendDown, tokensUnknown, identityLags})...),
		later(10*time.Second, []fault{blackhole})[0],
	}
}

// limitProcessor limits how much of one processor the host's processes get together. 0 removes the limit.
func (h *host) limitProcessor(part float64) error {
	quota, file, none := int64(part*float64(period.Microseconds())), "cpu.cfs_quota_us", "-1"
	value := fmt.Sprint(quota)
	if unified() {
		file, none = "cpu.max", "max"
	}
	if part == 0 {
		value = none
	}
	return os.WriteFile(filepath.Join(h.groups[processorController], file), []byte(value), 0o600)
}
