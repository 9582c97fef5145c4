// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"
)

// versionOf returns a resourceVersion, or 0 if there is none, or none that is valid.
func versionOf(text string) int64 {
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(version, 0)
}

func expired() *apierrors.StatusError {
	return apierrors.NewResourceExpired("too old resource version: the objects have moved to another etcd since")
}

// refuseList returns the error for a list whose resourceVersion is of another etcd.
func (p *place) refuseList(ctx context.Context, opts storage.ListOptions) error {
	version := versionOf(opts.ResourceVersion)
	if opts.Predicate.Continue != "" {
		_, of, err := storage.DecodeContinue(opts.Predicate.Continue, "/")
		if err != nil || of <= 0 {
			return nil //nolint:nilerr // the storage answers
		}
		return p.refuseResumption(ctx, of)
	}
	// A list with a limit is exact, too (storage.ValidateListOptions).
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact || opts.ResourceVersionMatch == "" && opts.Predicate.Limit > 0
	if exact && version > 0 && version < p.floor {
		return expired()
	}
	return p.refuseBeyond(ctx, version)
}

// refuseWatch returns the error for a watch whose resourceVersion is of another etcd. Its client has to list if that has expired.
func (p *place) refuseWatch(ctx context.Context, opts storage.ListOptions) error {
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		return p.refuseBeyond(ctx, versionOf(opts.ResourceVersion))
	}
	return p.refuseResumption(ctx, versionOf(opts.ResourceVersion))
}

// refuseResumption returns an error if what happened after a resourceVersion, or the rest of a list of then, is in another etcd.
func (p *place) refuseResumption(ctx context.Context, version int64) error {
	if version > 0 && version < p.floor {
		return expired()
	}
	err := p.refuseBeyond(ctx, version)
	if storage.IsTooLargeResourceVersion(err) {
		return expired()
	}
	return err
}

// refuseBeyond returns an error if the etcd has not come to a resourceVersion: one of another etcd would otherwise hide what happens here.
// A group that has always been here needs no question.
func (p *place) refuseBeyond(ctx context.Context, version int64) error {
	if p.record == (Record{}) || version <= p.reached.Load() {
		return nil
	}
	client, err := p.group.Clients.Client(&p.etcd)
	if err != nil {
		return err
	}
	return p.within(ctx, func(ctx context.Context) error {
		answer, err := client.Get(ctx, p.group.keys.Record, clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		now := answer.Header.GetRevision()
		p.reach(now)
		if version > now {
			return storage.NewTooLargeResourceVersionError(uint64(version), uint64(now), 0)
		}
		return nil
	})
}

// reach notes a revision that the etcd of the place has had.
func (p *place) reach(revision int64) { raiseTo(&p.reached, revision) }
