// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/local/process"
)

// waitingInterval is how often to say what a starting replica waits for.
const waitingInterval = 15 * time.Second

// ErrBusy is returned by Scale while another call changes the fleet.
var ErrBusy = errors.New("replicas are being started or stopped already")

// Scale makes n the number of replicas of a service. It returns when new replicas are ready and in use, or when surplus ones have stopped,
// the last one first. If ctx ends earlier, Scale gives up replicas that are not ready, and uses those again that it has not yet
// signalled to stop.
func (f *Fleet) Scale(ctx context.Context, service string, n int) error {
	if !f.changing.TryLock() {
		return ErrBusy
	}
	defer f.changing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	switch members := f.of(service); {
	case len(members) < n:
		return f.grow(ctx, service, len(members), n)
	case len(members) > n:
		return f.shrink(ctx, members[n:])
	}
	return nil
}

// grow starts all new replicas at once. If one of them cannot start, grow also gives up those after it.
func (f *Fleet) grow(ctx context.Context, service string, from, to int) error {
	var added []*member
	for number := from; number < to; number++ {
		m, err := newMember(service, number)
		if err == nil {
			added = append(added, m)
			f.add(added[len(added)-1:])
			err = f.run(m)
		}
		if err != nil {
			return errors.Join(err, f.forget(added))
		}
	}
	for i, m := range added {
		if err := f.AwaitReady(ctx, m.child); err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%s was not ready yet, and is given up: %w", m.replica.Name, err)
			}
			return errors.Join(err, f.forget(added[i:]))
		}
		if err := f.use(added[i : i+1]); err != nil {
			return errors.Join(err, f.forget(added[i:]))
		}
		f.config.Report(m.replica.Name, "is used from now on")
	}
	return nil
}

func (f *Fleet) shrink(ctx context.Context, leaving []*member) error {
	if err := f.spare(leaving); err != nil {
		return errors.Join(err, f.use(leaving))
	}
	for _, m := range slices.Backward(leaving) {
		f.config.Report(m.replica.Name, "is not used any more")
	}
	select {
	case <-ctx.Done():
	case <-time.After(f.config.Notice):
	}
	for i, m := range slices.Backward(leaving) {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, f.use(leaving[:i+1]))
		}
		if err := f.forget([]*member{m}); err != nil {
			return err
		}
	}
	return nil
}

// AwaitReady returns when the children are ready, and says from time to time what they wait for.
func (f *Fleet) AwaitReady(ctx context.Context, children ...*process.Child) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, waitingInterval)
		err := f.group.WaitReady(waiting, children...)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		for _, child := range children {
			if status := child.Status(); !status.Ready {
				f.config.Report(status.Replica, "not ready yet: "+status.Message)
			}
		}
	}
}
