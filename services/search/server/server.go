// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/services/search/crds"
	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/options"
	"github.com/tripod-k8s/tripod/services/search/pediaclusters"
	"github.com/tripod-k8s/tripod/services/search/policies"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/savedsearches"
	"github.com/tripod-k8s/tripod/services/search/shards"
	"github.com/tripod-k8s/tripod/services/search/store"
)

// server is a replica of search while it runs.
type server struct {
	options *options.Options

	// These are there once the server is prepared.
	store   *store.Store
	rights  *rights.Rights
	handler *Handler
	// copier is nil if the replica copies nothing.
	copier *copier
	// saved is nil if the replica does not serve, and authorizer decides about its requests.
	saved      *savedsearches.Searches
	authorizer authorizer.Authorizer

	// migrated is set once the database has the schema of this program.
	migrated atomic.Bool
}

// copier copies clusters.
type copier struct {
	shared member.Dependencies
	// hub is nil if the cluster that search is part of is not copied.
	hub       *member.Member
	client    dynamic.Interface
	questions discovery.DiscoveryInterface
}

// prepare opens the database, which need not answer yet.
func (s *server) prepare(_ context.Context, e *apiservice.Environment) error {
	location, err := s.options.Location()
	if err != nil {
		return err
	}
	opened, err := store.Open(location)
	if err != nil {
		return fmt.Errorf("--database: %w", err)
	}
	s.store = opened.WithHub(s.options.Members.Hub)
	s.rights = rights.New(s.store)
	registerMetrics(s.store)
	s.handler = newHandler(s.store, s.rights, nil, newBudget(s.options.AnswerMemory))
	if s.options.Has(options.Serve) {
		if s.saved, err = newSaved(s, e.Cluster); err != nil {
			return err
		}
	}
	if s.options.Has(options.Sync) {
		s.copier, err = newCopier(s.options, s.store, e.Cluster)
	}
	return err
}

// close closes the database, once nothing uses it any more: what requests have begun to read may outlive them.
func (s *server) close() error {
	if s.store == nil {
		return nil
	}
	s.handler.close()
	s.rights.Close()
	return s.store.Close()
}

func newCopier(o *options.Options, database *store.Store, cluster *rest.Config) (*copier, error) {
	work, err := shards.New(database, shards.Standard)
	if err != nil {
		return nil, err
	}
	limiter, err := member.NewLimiter(o.Limits)
	if err != nil {
		return nil, err
	}
	c := &copier{shared: member.Dependencies{Store: database, Shards: work, Checks: member.NewChecks(database), Limiter: limiter}}
	if o.Members.Hub != "" {
		if c.hub, err = member.New(o.Members.Hub, cluster, member.Everything, c.shared); err != nil {
			return nil, err
		}
	}
	config := rest.CopyConfig(cluster)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	if c.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	c.questions, err = discovery.NewDiscoveryClientForConfig(config)
	return c, err
}

// run gives the database its schema and then does what the replica has to do besides answering, until the context ends. It owns the
// goroutines of all of it.
func (s *server) run(ctx context.Context, _ *apiservice.Environment) error {
	if !s.migrate(ctx) {
		return nil
	}
	warnOfMemory(s.options)
	var group wait.Group
	defer group.Wait()
	if s.options.Has(options.Serve) {
		group.StartWithContext(ctx, s.rights.Run)
		group.StartWithContext(ctx, s.saved.Run)
	}
	if s.copier == nil {
		return nil
	}
	work := s.copier.shared.Shards
	group.StartWithContext(ctx, func(ctx context.Context) { s.analyze(ctx, work) })
	group.StartWithContext(ctx, s.forgetEvents)
	group.StartWithContext(ctx, func(ctx context.Context) { s.forgetKinds(ctx, work) })
	group.StartWithContext(ctx, func(ctx context.Context) { s.prune(ctx, work) })
	s.copier.run(ctx, s.options, s.rights.TooLarge)
	return nil
}

// run copies clusters until the context ends. tooLarge is pediaclusters.Options.TooLarge.
func (c *copier) run(ctx context.Context, o *options.Options, tooLarge func(cluster string) string) {
	var group wait.Group
	defer group.Wait()
	group.StartWithContext(ctx, c.shared.Shards.Run)
	group.StartWithContext(ctx, c.shared.Checks.Run)
	if c.hub != nil {
		group.StartWithContext(ctx, c.hub.Run)
	}
	define(ctx, c.client)
	memory := hub.StandardMemory()
	definitions := crds.NewKeeper(c.client, memory)
	group.StartWithContext(ctx, definitions.Run)
	group.StartWithContext(ctx, policies.New(c.client, c.questions, memory, o.Templates, o.ImportMaxClusters, definitions.Complete).Run)
	clusters := o.Members
	clusters.Writable, clusters.TooLarge = definitions.Complete, tooLarge
	pediaclusters.New(c.client, memory, clusters, c.shared).Run(ctx)
}

// analyze lets the database look at its tables: soon, when a first list is complete, and then from time to time. One of the replicas does
// it.
func (s *server) analyze(ctx context.Context, work *shards.Shards) {
	for pause := time.Minute; ; pause = time.Hour {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !work.Mine("history") {
			continue
		}
		if err := s.store.Analyze(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "The database cannot look at its tables, so searches may be slow")
		}
	}
}

// kindsInterval is the time between two looks for kinds that no cluster has. They go after all watches that may know them, and after the
// history.
const kindsInterval = 10 * time.Minute

// forgetKinds removes kinds that no cluster has had for long. One of the replicas does it.
func (s *server) forgetKinds(ctx context.Context, work *shards.Shards) {
	var unused map[int64]time.Time // since when, as far as this replica knows
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if !work.Mine("history") {
			unused = nil
			return
		}
		var err error
		if unused, err = forgetKinds(ctx, s.store, unused, time.Now(), 2*maxWatchTime); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Cannot remove kinds that no cluster has")
		}
	}, kindsInterval, 0.5, true)
}

// forgetKinds removes the kinds that were unused for some time. It returns those that are unused now, and since when.
func forgetKinds(ctx context.Context, from *store.Store, unused map[int64]time.Time, now time.Time,
	long time.Duration) (map[int64]time.Time, error) {
	ids, err := from.UnusedKinds(ctx)
	if err != nil {
		return unused, err
	}
	still := map[int64]time.Time{}
	var old []int64
	for _, id := range ids {
		since, known := unused[id]
		if still[id] = now; known {
			still[id] = since
		}
		if now.Sub(still[id]) >= long {
			old = append(old, id)
		}
	}
	if len(old) == 0 {
		return still, nil
	}
	return still, from.ForgetKinds(ctx, old, now.Add(-long))
}

// forgetEvents removes old events from time to time.
func (s *server) forgetEvents(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if err := s.store.ForgetEvents(ctx, time.Now().Add(-s.options.EventsTTL)); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Cannot remove old events")
		}
	}, 10*time.Minute, 0.5, true)
}

// pruneInterval is the time between two looks at the end of the history.
const pruneInterval = 5 * time.Second

// prune removes old changes. One of the replicas does it.
func (s *server) prune(ctx context.Context, work *shards.Shards) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for more := work.Mine("history"); more && ctx.Err() == nil; {
			var err error
			if more, err = s.store.Prune(ctx, time.Now().Add(-s.options.HistoryTTL)); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Cannot remove old changes")
			}
		}
	}, pruneInterval)
}

// define creates the definitions of PediaClusters. It returns when they are there, or the context ends.
func define(ctx context.Context, client dynamic.Interface) {
	applied := func(ctx context.Context) (bool, error) {
		err := crds.Apply(ctx, client)
		if err != nil {
			klog.V(2).InfoS("The CustomResourceDefinitions of search cannot be created yet", "err", err)
		}
		return err == nil, nil
	}
	wait.PollUntilContextCancel(ctx, 2*time.Second, true, applied) //nolint:errcheck // the context ends everything
}

// migrate returns true when the database has its schema, and false if the context ends before. A database with a newer schema may be
// replaced by an older backup, so it is tried again, too.
func (s *server) migrate(ctx context.Context) bool {
	err := wait.PollUntilContextCancel(ctx, 5*time.Second, true, func(ctx context.Context) (bool, error) {
		err := s.store.Migrate(ctx)
		if err != nil {
			klog.ErrorS(err, "The database cannot be used yet")
		}
		return err == nil, nil
	})
	s.migrated.Store(err == nil)
	return err == nil
}
