// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// lockTimeout is long enough for the Lease of a command that was killed to end.
	lockTimeout = leaseDuration + 3*retryPeriod
)

var (
	errHeld = errors.New("another resize is in progress: wait until it has ended")
	errLost = errors.New("the Lease was lost to another resize, or could not be renewed")
	errDone = errors.New("done")
)

// locked does work while no other command resizes this etcd.
func (r *resizer) locked(ctx context.Context, work func(context.Context) error) error {
	parent := ctx
	ctx, cancel := context.WithCancelCause(klog.NewContext(parent, klog.Logger{})) // the elector would log what errors say
	defer cancel(nil)
	var mu sync.Mutex
	var ended chan struct{} // of the work, if it has begun
	var result error
	over := false
	late := time.AfterFunc(lockTimeout, func() { cancel(errHeld) })
	defer late.Stop()
	waiting := time.AfterFunc(retryPeriod, func() { r.Progress("waiting for a resize that is in progress, or was stopped a moment ago") })
	defer waiting.Stop()
	begin := func(held context.Context) {
		mu.Lock()
		if over || !late.Stop() {
			mu.Unlock()
			return
		}
		waiting.Stop()
		done := make(chan struct{})
		ended = done
		mu.Unlock()
		defer close(done)
		result = work(held)
		cancel(errDone)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.set + "-resize"}, Client: r.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "tripod-" + rand.Text()},
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: begin, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return err
	}
	// The elector would repeat an error, such as missing rights, until its time is over.
	if _, err := lock.Client.Leases(r.Namespace).Get(ctx, lock.LeaseMeta.Name, metav1.GetOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot see whether another resize is in progress: %w", err)
	}
	elector.Run(ctx)
	cancel(errLost)
	mu.Lock()
	over = true
	done := ended
	mu.Unlock()
	if done == nil {
		return context.Cause(ctx)
	}
	<-done
	r.discard(context.WithoutCancel(ctx), lock)
	if errors.Is(result, context.Canceled) && parent.Err() == nil {
		return errLost
	}
	return result
}

// discard deletes the Lease unless another command has it. The elector must not give it up: it would do so while the work still ends.
func (r *resizer) discard(ctx context.Context, lock *resourcelock.LeaseLock) {
	lease, err := lock.Client.Leases(r.Namespace).Get(ctx, lock.LeaseMeta.Name, metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != lock.LockConfig.Identity {
		return
	}
	_ = lock.Client.Leases(r.Namespace).Delete(ctx, lease.Name, metav1.DeleteOptions{ // one that is left does no harm
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
}
