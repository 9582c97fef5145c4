// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

// fault is something that fails for a while.
type fault struct {
	// target is what fails, and group the kind of failure.
	target, group, name string
	cause               func(ctx context.Context, random *rand.Rand) error
}

// hold lets a failure last, mostly for a short time, and sometimes for longer.
func hold(ctx context.Context, random *rand.Rand) {
	longest := 2 * time.Second
	if random.IntN(4) == 0 {
		longest = 15 * time.Second
	}
	sleep(ctx, time.Duration(random.Int64N(int64(longest))))
}

func sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// missed is how long a replica is paused: the other one has taken its streams over when it wakes up, and it goes on with what it was about to write.
const missed = 10 * time.Second

// faults are all that can fail.
func (s *scene) faults() (all []fault) {
	add := func(target, group string, cause func(context.Context, *rand.Rand) error) {
		all = append(all, fault{target, group, group + " " + target, cause})
	}
	for _, name := range replicas {
		add(name, "kill", func(ctx context.Context, random *rand.Rand) error {
			if err := s.Replica(name).Kill(); err != nil {
				return err
			}
			hold(ctx, random)
			return s.Replica(name).Start()
		})
		add(name, "pause", func(ctx context.Context, _ *rand.Rand) error {
			if err := s.Replica(name).Pause(); err != nil {
				return err
			}
			sleep(ctx, missed)
			return s.Replica(name).Resume()
		})
	}
	add("database", "kill", func(ctx context.Context, random *rand.Rand) error {
		if err := s.database.Kill(); err != nil {
			return err
		}
		hold(ctx, random)
		return s.database.Start()
	})
	add("core", "kill", func(ctx context.Context, random *rand.Rand) error {
		core := s.Replica("core-0")
		if err := core.Kill(); err != nil {
			return err
		}
		hold(ctx, random)
		if err := core.Start(); err != nil {
			return err
		}
		return core.WaitReady(ctx)
	})
	for name, gateway := range s.networks {
		add("network of "+name, "cut", func(ctx context.Context, random *rand.Rand) error {
			gateway.Cut()
			hold(ctx, random)
			gateway.Mend()
			return nil
		})
		add("network of "+name, "freeze", func(ctx context.Context, random *rand.Rand) error {
			gateway.Frozen.Lock()
			defer gateway.Frozen.Unlock()
			hold(ctx, random)
			if random.IntN(2) == 0 { // what was on its way is lost
				gateway.Cut()
				gateway.Mend()
			}
			return nil
		})
	}
	add(shaken, "kill", func(ctx context.Context, random *rand.Rand) error { return s.members[shaken].kill(ctx, random) })
	add("etcd of "+shaken, "kill", func(ctx context.Context, random *rand.Rand) error {
		server := s.members[shaken].server
		if err := server.Etcd.Signal(syscall.SIGKILL); err != nil {
			return err
		}
		<-server.Etcd.Done()
		hold(ctx, random)
		return server.StartEtcd(ctx)
	})
	return all
}

// kill kills the API server of a member. Often, its etcd forgets its history meanwhile, as it does after some minutes.
func (m *member) kill(ctx context.Context, random *rand.Rand) error {
	m.killed++
	if err := m.server.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-m.server.Process.Done()
	hold(ctx, random)
	if random.IntN(2) == 0 {
		if err := framework.Poll(ctx, "etcd forgets its history", m.server.ForgetHistory); err != nil {
			return err
		}
	}
	return m.restart(ctx)
}

// restart starts the API server again, as a kubelet does: also if it gives up because its etcd is slow on a busy machine.
func (m *member) restart(ctx context.Context) (err error) {
	const attempts = 3
	for range attempts {
		if err = m.server.Restart(ctx, m.flags...); err == nil {
			break
		}
	}
	return err
}

// shortRounds are the first rounds, which the short form of the test has. The replica that is paused wakes up when the other one has its streams.
var shortRounds = [][]string{{"pause search-0", "kill search-1", "kill database", "freeze network of " + steady, "kill " + shaken}}

func (s *scene) faultsNamed(names []string) []fault {
	return slices.DeleteFunc(s.faults(), func(f fault) bool { return !slices.Contains(names, f.name) })
}

// someFaults returns up to three faults of different targets.
func (s *scene) someFaults(random *rand.Rand) (some []fault) {
	all := s.faults()
	for _, i := range random.Perm(len(all))[:1+random.IntN(3)] {
		if !slices.ContainsFunc(some, func(f fault) bool { return f.target == all[i].target }) {
			some = append(some, all[i])
		}
	}
	return some
}

func (s *scene) caused() (sum int) {
	for _, n := range s.counts {
		sum += n
	}
	return sum
}

func (s *scene) faultCounts() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, s.counts[name]))
	}
	return strings.Join(parts, ", ")
}
