// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/store"
)

const (
	// countInterval is how often the objects of a member are counted while there are few, and measureInterval how often their size is measured
	// while it is too large.
	countInterval, measureInterval = 5 * time.Second, time.Minute
	// measureParts is which part of the size a member may write until its size is measured again.
	measureParts = 16
)

// usage is what the store has of a member.
type usage struct {
	cluster string
	store   *store.Store
	limits  *Limits

	mu sync.Mutex
	// objects may be more than there are: each change since they were counted may have added one.
	objects             int64
	counted, measured   time.Time
	size, sinceMeasured int64
}

// room returns which of some changes the store may take. If these are not all, the error says why.
func (u *usage) room(ctx context.Context, changes, bytes int) (store.Room, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.isTooLarge(ctx, int64(bytes)) {
		return store.RoomForNothing, u.tooLarge()
	}
	if u.hasTooMany(ctx) {
		return store.RoomForKnown, limited("objects", "member-max-objects", "the cluster has more than %d objects", u.limits.Objects)
	}
	u.objects += int64(changes)
	return store.RoomForAll, nil
}

// takes returns why a document has no room, or nil.
func (u *usage) takes(ctx context.Context, bytes int) *LimitError {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.isTooLarge(ctx, int64(bytes)) {
		return u.tooLarge()
	}
	return nil
}

func (u *usage) tooLarge() *LimitError {
	return limited("size", "member-max-size", "the objects and documents of the cluster have more than %s", &u.limits.Size)
}

func (u *usage) hasTooMany(ctx context.Context) bool {
	if limit := int64(u.limits.Objects); u.objects > limit/2 || time.Since(u.counted) > countInterval {
		objects, err := u.store.CountObjects(ctx, u.cluster)
		if err != nil {
			klog.V(2).InfoS("The objects of a cluster cannot be counted", "cluster", u.cluster, "err", err)
			return u.objects >= limit
		}
		u.objects, u.counted = objects, time.Now()
	}
	return u.objects >= int64(u.limits.Objects)
}

// isTooLarge measures rarely, because the database then reads all objects of the member.
func (u *usage) isTooLarge(ctx context.Context, bytes int64) bool {
	limit := u.limits.Size.Value()
	u.sinceMeasured += bytes
	over := u.size+u.sinceMeasured > limit && time.Since(u.measured) > measureInterval
	if u.sinceMeasured > limit/measureParts || over {
		size, err := u.store.Size(ctx, u.cluster)
		if err != nil {
			klog.V(2).InfoS("The objects of a cluster cannot be measured", "cluster", u.cluster, "err", err)
			size = u.size + u.sinceMeasured
		}
		u.size, u.sinceMeasured, u.measured = size, 0, time.Now()
	}
	return u.size > limit
}
