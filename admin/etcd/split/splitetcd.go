// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package split gives CustomResourceDefinitions and custom resources an etcd of their own. It copies them, as they are stored, from
// the etcd of all services. No client may write them meanwhile.
//
// All that clients notice of the new etcd is that they list again. Before it copies anything, split raises the revision of the target
// above that of the source, so that no resourceVersion decreases. After the copy it compacts the target. So watches from before have
// to list again, and cannot miss what happened in the source.
//
// The next run continues an interrupted one. It does not repeat what is finished, because the target may have changed since.
package split

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/base/storage/placement"
)

// Options say what to copy, from where to where.
type Options struct {
	// Source is the etcd of all services, Target the one for extensions.
	Source, Target Etcd
	// Prefix is the --etcd-prefix of the services, /registry.
	Prefix string
	// DeleteSource deletes what was copied from the source, unless it has changed there since.
	DeleteSource bool
	// Progress gets a line about each step, and its progress.
	Progress func(line string)
}

// Report says what a run has done.
type Report struct {
	// SourceRevision and TargetRevision are the revisions of the etcds at the comparison.
	SourceRevision int64 `json:"sourceRevision"`
	TargetRevision int64 `json:"targetRevision"`
	// Resources are what was copied, in this or an earlier run, definitions first.
	Resources []Resource `json:"resources"`
	// Written, Unchanged and Removed count the objects that this run has written to the target, has found there, and has removed there
	// because the source no longer has them.
	Written   int64 `json:"written"`
	Unchanged int64 `json:"unchanged"`
	Removed   int64 `json:"removed"`
	// DeletedFromSource counts the objects that were deleted from the source.
	DeletedFromSource int64 `json:"deletedFromSource"`
}

// Resource describes what is stored of one resource.
type Resource struct {
	// Name is as in widgets.example.com.
	Name    string `json:"name"`
	Objects int64  `json:"objects"`
	// Checksum is the SHA-256 of all keys and values, in hexadecimal digits.
	Checksum string `json:"checksum"`
}

// extent is what sum finds besides.
type extent struct {
	// latest is the latest revision among the objects, and bytes the size of all keys and values.
	latest, bytes int64
}

// split is one run.
type split struct {
	Options
	source, target *clientv3.Client
	report         Report
	// since is the revision of the source up to which an earlier copy of this run is complete.
	since int64
	// inUse is set if the target has other objects, of which clients may need the history.
	inUse bool
	// locks are the conditions of all changes in an etcd. They are false once another move may have begun.
	locks map[*clientv3.Client]clientv3.Cmp
}

// errNotAlone is why a move ends.
var errNotAlone = errors.New("another move of this group has begun, or may have: nothing more is changed")

// locked are conditions with the lock of an etcd.
func (s *split) locked(etcd *clientv3.Client, conditions ...clientv3.Cmp) []clientv3.Cmp {
	if lock, has := s.locks[etcd]; has {
		conditions = append(conditions, lock)
	}
	return conditions
}

// change changes an etcd as long as no other move may have begun.
func (s *split) change(ctx context.Context, etcd *clientv3.Client, op clientv3.Op) error {
	answer, err := etcd.Txn(ctx).If(s.locked(etcd)...).Then(op).Commit()
	if err == nil && !answer.Succeeded {
		err = errNotAlone
	}
	return err
}

// Run copies. The report lists what was done, also after an error.
func Run(ctx context.Context, o Options) (*Report, error) {
	source, err := o.Source.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer source.Close() //nolint:errcheck // nothing is pending
	target, err := o.Target.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer target.Close()                //nolint:errcheck // nothing is pending
	o.Prefix = path.Join("/", o.Prefix) // as API servers do
	s := &split{Options: o, source: source, target: target}
	return &s.report, s.run(ctx)
}

func (s *split) run(ctx context.Context) error {
	done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	if done != nil {
		if done, err = s.stillDone(ctx, done); err != nil {
			return err
		}
	}
	if done == nil {
		if done, err = s.copyAll(ctx); err != nil {
			return err
		}
	} else {
		s.Progress("everything was copied by an earlier run")
	}
	s.report.Resources = done.Resources
	if !s.DeleteSource {
		return nil
	}
	return s.deleteSource(ctx, done)
}

// copyAll copies, compares, and notes that this is done.
func (s *split) copyAll(ctx context.Context) (*record, error) {
	began, err := revision(ctx, s.source)
	if err != nil {
		return nil, err
	}
	if err := s.raise(ctx, began); err != nil {
		return nil, err
	}
	resources, err := s.resources(ctx, s.source)
	if err != nil {
		return nil, err
	}
	if len(resources) == 1 {
		return nil, fmt.Errorf("the source has no CustomResourceDefinitions below %s: is --etcd-prefix right?", s.Prefix)
	}
	for _, resource := range resources {
		if err := s.copy(ctx, resource); err != nil {
			return nil, fmt.Errorf("cannot copy %s: %w", resource.name, err)
		}
	}
	if err := s.copyRecords(ctx, resources); err != nil {
		return nil, err
	}
	copied, err := s.compare(ctx, resources, began)
	if err != nil {
		return nil, err
	}
	ended, err := revision(ctx, s.source)
	if err != nil {
		return nil, err
	}
	if err := s.raise(ctx, ended); err != nil {
		return nil, err
	}
	done := &record{Source: s.Source.id, Revision: began, Resources: copied, Done: true}
	if err := s.finish(ctx, done); err != nil {
		return nil, err
	}
	s.report.SourceRevision = ended
	s.report.TargetRevision, err = revision(ctx, s.target)
	return done, err
}

// copyRecords copies what says which groups are in an etcd of their own.
func (s *split) copyRecords(ctx context.Context, resources []resource) error {
	groups := sets.New[string]()
	for _, r := range resources {
		_, group, _ := strings.Cut(r.name, ".")
		groups.Insert(group)
	}
	for _, group := range sets.List(groups) {
		key := placement.KeysOf(s.Prefix, group).Record
		answer, err := s.source.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("cannot read where %s is: %w", group, err)
		}
		for _, kv := range answer.Kvs {
			if err := s.change(ctx, s.target, clientv3.OpPut(key, string(kv.Value))); err != nil {
				return fmt.Errorf("cannot copy where %s is: %w", group, err)
			}
		}
	}
	return nil
}

// stillDone returns the record of an earlier run if the source is as it was then, or is being deleted. It returns nil when the source was
// changed, because that run was too early, and the target was not: then everything can be copied again.
func (s *split) stillDone(ctx context.Context, done *record) (*record, error) {
	source, latest, err := s.sums(ctx, s.source)
	if err != nil {
		return nil, err
	}
	unchanged := latest <= done.Revision
	if unchanged && (done.Deleting || slices.Equal(source, done.Resources)) {
		return done, nil
	}
	if done.Deleting || s.DeleteSource {
		return nil, errors.New("the source has changed since it was copied: nothing is deleted")
	}
	target, _, err := s.sums(ctx, s.target)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(target, done.Resources) {
		return nil, errors.New("everything was copied by an earlier run, " +
			"and since then custom resources were changed in the source and in the target: " +
			"extensions must use only one of them; empty the target to begin anew")
	}
	s.Progress("the source has changed since an earlier run copied it")
	return nil, s.write(ctx, &record{Source: s.Source.id})
}

// sums returns what an etcd has of CustomResourceDefinitions, and of each resource that they define, and the revision of the latest change
// that is still to be seen.
func (s *split) sums(ctx context.Context, client *clientv3.Client) (all []Resource, latest int64, err error) {
	resources, err := s.resources(ctx, client)
	if err != nil {
		return nil, 0, err
	}
	for _, resource := range resources {
		one, found, err := sum(ctx, client, resource)
		if err != nil {
			return nil, 0, err
		}
		all, latest = append(all, one), max(latest, found.latest)
	}
	return all, latest, nil
}

// compare returns the number and the checksum of the objects of each resource, which must be the same in source and target.
func (s *split) compare(ctx context.Context, resources []resource, since int64) ([]Resource, error) {
	s.Progress("comparing source and target")
	var same []Resource
	for _, resource := range resources {
		source, found, err := sum(ctx, s.source, resource)
		if err != nil {
			return nil, err
		}
		if found.latest > since {
			return nil, fmt.Errorf("%s changed in the source while it was copied: "+
				"stop what writes custom resources (extensions, or kube-apiserver), "+
				"and run this again",
				resource.name)
		}
		target, _, err := sum(ctx, s.target, resource)
		if err != nil {
			return nil, err
		}
		if source != target {
			return nil, fmt.Errorf("%s differs: %d objects in the source with checksum %s, %d in the target with %s; "+
				"stop what writes custom resources, and run this again",
				resource.name, source.Objects, source.Checksum, target.Objects, target.Checksum)
		}
		same = append(same, source)
	}
	now, err := s.resources(ctx, s.source)
	if err != nil {
		return nil, err
	}
	if len(now) != len(resources) {
		return nil, errors.New("there are other CustomResourceDefinitions in the source than when this began: " +
			"stop what writes them (extensions, or kube-apiserver), and run this again")
	}
	return same, nil
}

// deleteSource deletes what was copied from the source, and nothing that was written since.
func (s *split) deleteSource(ctx context.Context, done *record) error {
	done.Deleting = true
	if err := s.write(ctx, done); err != nil {
		return err
	}
	for _, copied := range done.Resources {
		s.Progress("deleting " + copied.Name + " from the source")
		if err := s.deleteResource(ctx, s.resource(copied.Name), done.Revision); err != nil {
			return err
		}
	}
	return nil
}

// deleteResource deletes the objects of a resource that are not newer than a revision. They are deleted one by one, because the source
// serves others, which would wait for all of them.
func (s *split) deleteResource(ctx context.Context, r resource, revision int64) error {
	return pages(ctx, s.source, r, func(page []*mvccpb.KeyValue) error {
		deleting, ctx := errgroup.WithContext(ctx)
		deleting.SetLimit(writers)
		for _, entry := range page {
			deleting.Go(func() error {
				key := string(entry.Key)
				answer, err := s.source.Txn(ctx).
					If(s.locked(s.source, clientv3.Compare(clientv3.ModRevision(key), "<", revision+1))...).
					Then(clientv3.OpDelete(key)).Commit()
				switch {
				case err != nil:
					return fmt.Errorf("cannot delete %s from the source: %w", r.name, err)
				case !answer.Succeeded:
					return fmt.Errorf("%s was written in the source since it was copied: the rest of it is left there", key)
				}
				atomic.AddInt64(&s.report.DeletedFromSource, 1)
				return nil
			})
		}
		return deleting.Wait()
	})
}
