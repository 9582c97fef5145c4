// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// progressEvery is how often Progress gets the time that a member takes.
	progressEvery = 10 * time.Second
	// askInterval is the time between two questions whether a member is healthy again.
	askInterval = 500 * time.Millisecond
	mib         = 1 << 20
)

// DefragOptions say how to defragment.
type DefragOptions struct {
	// DryRun changes nothing.
	DryRun bool
	// Recovery is how long a member may take to become healthy again.
	Recovery time.Duration
	// Progress gets a line about each step.
	Progress func(line string)
}

// Defragmented is a member that was defragmented, or with DryRun would be.
type Defragmented struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	Leader   bool   `json:"leader"`
	// Before and After are sizes of the database in bytes. With DryRun, After is what is in use.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
	// Took is the time in which the member answered no requests, in seconds.
	Took float64 `json:"tookSeconds"`
}

// Defrag defragments all members, one at a time, the leader last. A member answers no requests meanwhile. Before each, all members must be
// healthy and have no alarm but NOSPACE. If all have space afterwards, it clears that alarm, so that etcd accepts writes again. It returns
// those that are done, also if it fails.
func Defrag(ctx context.Context, client *clientv3.Client, o DefragOptions) (done []Defragmented, err error) {
	finished := map[uint64]bool{}
	for {
		members, err := Status(ctx, client, o.Progress)
		if err != nil {
			return done, err
		}
		if err := refuse(members); err != nil {
			return done, stopped(done, err)
		}
		next := choose(members, finished)
		if next == nil {
			return done, disarm(ctx, client, members, o)
		}
		finished[next.id] = true
		one := Defragmented{Name: next.label(), Endpoint: next.Endpoint, Leader: next.Leader, Before: next.DBSize, After: next.DBSizeInUse}
		if !o.DryRun {
			if err := defragment(ctx, client, o, len(members), next, &one); err != nil {
				return done, stopped(done, err)
			}
		}
		done = append(done, one)
	}
}

// stopped says how far a run came that failed.
func stopped(done []Defragmented, err error) error {
	if len(done) == 0 {
		return fmt.Errorf("nothing is defragmented: %w", err)
	}
	names := make([]string, len(done))
	for i, d := range done {
		names[i] = d.Name
	}
	return fmt.Errorf("stopped after %s: %w", strings.Join(names, ", "), err)
}

// refuse returns an error unless a member may be away for a while.
func refuse(members []Member) error {
	if err := Problems(members); err != nil {
		return err
	}
	for _, m := range members {
		for _, alarm := range m.Alarms {
			if alarm != pb.AlarmType_NOSPACE.String() {
				return fmt.Errorf("member %s has the alarm %s: repair it first", m.label(), alarm)
			}
		}
	}
	return nil
}

// choose returns the next member, or nil after the last one. The leader may change meanwhile.
func choose(members []Member, finished map[uint64]bool) *Member {
	var leader *Member
	for i := range members {
		switch m := &members[i]; {
		case finished[m.id]:
		case m.Leader:
			leader = m
		default:
			return m
		}
	}
	return leader
}

// defragment defragments a member, and returns when it is healthy again.
func defragment(ctx context.Context, client *clientv3.Client, o DefragOptions, of int, m *Member, result *Defragmented) error {
	role := "follower"
	if m.Leader {
		role = "leader"
	}
	if of == 1 {
		role = "only member: requests wait"
	}
	o.Progress(fmt.Sprintf("%s (%s): %d MiB, %d MiB in use", m.label(), role, m.DBSize/mib, m.DBSizeInUse/mib))
	began := time.Now()
	stop := follow(o, m.label(), began)
	_, err := client.Defragment(ctx, m.Endpoint)
	stop()
	if err != nil {
		return fmt.Errorf("member %s at %s, which may still be at it: %w", m.label(), m.Endpoint, err)
	}
	result.Took = time.Since(began).Seconds()
	after, err := awaitHealthy(ctx, client, o.Recovery, m.id)
	if err != nil {
		return err
	}
	result.After = after.DBSize
	o.Progress(fmt.Sprintf("%s: %d MiB, after %.1f s", m.label(), after.DBSize/mib, result.Took))
	return nil
}

// follow reports how long a member takes, until stop is called.
func follow(o DefragOptions, name string, began time.Time) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				o.Progress(fmt.Sprintf("%s is at it for %.0f s", name, time.Since(began).Seconds()))
			}
		}
	}()
	return func() { close(done); <-ended }
}

// awaitHealthy returns the state of a member once all members are healthy.
func awaitHealthy(ctx context.Context, client *clientv3.Client, within time.Duration, id uint64) (*Member, error) {
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	last := context.DeadlineExceeded
	var found *Member
	err := wait.PollUntilContextCancel(waiting, askInterval, true, func(ctx context.Context) (bool, error) {
		members, err := Status(ctx, client, nil)
		if err == nil {
			err = Problems(members)
		}
		if err != nil {
			if waiting.Err() == nil {
				last = err
			}
			return false, nil
		}
		i := slices.IndexFunc(members, func(m Member) bool { return m.id == id })
		if i < 0 {
			return false, errors.New("the member was removed from etcd meanwhile")
		}
		found = &members[i]
		return true, nil
	})
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case wait.Interrupted(err):
		return nil, fmt.Errorf("etcd is not healthy after %s: %w", within, last)
	}
	return nil, err
}

// disarm ends the alarm NOSPACE if each member has a tenth of its quota again. With less, etcd would raise it again soon.
func disarm(ctx context.Context, client *clientv3.Client, members []Member, o DefragOptions) error {
	var raised []Member
	for _, m := range members {
		if len(m.Alarms) > 0 { // no other alarm has come as far
			raised = append(raised, m)
		}
	}
	if len(raised) == 0 || o.DryRun {
		return nil
	}
	for _, m := range members {
		if m.DBQuota == 0 || m.DBSize > m.DBQuota/10*9 {
			return fmt.Errorf("the alarm NOSPACE stays, because %s still has %d MiB of a quota of %d MiB: delete objects, or raise the quota",
				m.label(), m.DBSize/mib, m.DBQuota/mib)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, m := range raised {
		if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: m.id, Alarm: pb.AlarmType_NOSPACE}); err != nil {
			return fmt.Errorf("cannot clear the alarm NOSPACE of %s: %w", m.label(), err)
		}
	}
	o.Progress("all members have space again: the alarm NOSPACE is cleared, and etcd accepts writes")
	return nil
}
