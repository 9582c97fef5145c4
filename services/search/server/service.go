// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/crds"
	"github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/members"
	"github.com/tripod-k8s/tripod/services/search/policies"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/shards"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/templates"
)

// Name is the name of the service.
const Name = "search"

// The roles of a replica.
const (
	// roleServe is to answer. A replica that does nothing else copies nothing.
	roleServe = "serve"
	// roleSync is to copy clusters.
	roleSync = "sync"
)

// search is the service while it runs.
type search struct {
	database, databaseFile string
	roles                  []string
	members                members.Options
	limits                 member.Limits
	// templates are the limits of templates of policies.
	templates templates.Limits
	// eventsTTL is how long events of objects are kept.
	eventsTTL time.Duration
	// historyTTL is how long changes are kept.
	historyTTL time.Duration
	// answers is the memory of budget.
	answers int64

	// store and rights are there before the first request.
	store   *store.Store
	rights  *rights.Rights
	handler *Handler
	// migrated is set once the database has the schema of this program.
	migrated atomic.Bool
}

// Service returns the service.
func Service() apiservice.Service {
	s := &search{
		roles: []string{roleServe, roleSync}, members: members.Options{Hub: "hub", HubRights: true}, eventsTTL: 24 * time.Hour, historyTTL: 10 * time.Minute,
		limits: member.Standard(), templates: templates.Standard, answers: standardAnswers,
	}
	return apiservice.Service{
		Name:        Name,
		Description: "tripod-search serves the objects of many clusters, which it copies into a database, behind Tripod's aggregator.",
		AddToScheme: []func(*runtime.Scheme) error{v1beta1.AddToScheme},
		Definitions: v1beta1.OpenAPIDefinitions,
		AddFlags:    s.addFlags,
		Groups: []apiservice.Group{{
			Name: v1beta1.GroupVersion.Group, Versions: []string{v1beta1.GroupVersion.Version},
			Resources: []apiservice.Resource{
				apiservice.Custom{Name: "collectionresources", Example: &v1beta1.CollectionResource{}, New: s.newCollections},
				apiservice.Custom{Name: "resources", Example: &v1beta1.Resources{}, New: func(*apiservice.Environment) (registryrest.Storage, error) { return Resources{}, nil }},
			},
		}},
		Requests: &apiservice.Requests{
			Info:   RequestInfo,
			Around: WithNotes,
			Authorizer: func(next authorizer.Authorizer) authorizer.Authorizer {
				return NewAuthorizer(remember(next, clock.RealClock{}), func() *rights.Rights { return s.rights })
			},
			Handler: func(_ *apiservice.Environment, next http.Handler) http.Handler {
				handler := sync.OnceValue(func() *Handler { return s.handler.before(next) })
				return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { handler().ServeHTTP(w, req) })
			},
		},
		ReadyChecks: []apiservice.ReadyCheck{{Name: "database", Check: s.checkDatabase}},
		Hooks:       []apiservice.Hook{{Name: "copy-clusters", Run: s.start}},
	}
}

func (s *search) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.database, "database", s.database,
		"Where the objects are kept: sqlite:FILE, postgres://USER:PASSWORD@HOST/DATABASE, or mysql://USER:PASSWORD@HOST/DATABASE for MySQL and MariaDB.")
	fs.StringVar(&s.databaseFile, "database-file", s.databaseFile,
		"File with the value of --database, which keeps a password out of the list of processes.")
	fs.StringSliceVar(&s.roles, "roles", s.roles,
		"What this replica does: serve answers searches, sync copies clusters. Replicas of both share a database, and each can be scaled alone.")
	fs.StringVar(&s.members.Hub, "hub-cluster", s.members.Hub, "Name of the cluster that this service is part of. Its objects are copied, too. Empty copies none of them.")
	fs.BoolVar(&s.members.HubRights, "hub-rights", s.members.HubRights,
		"Show readers what they may read in the hub cluster itself by its RBAC. Turn it off if another authorizer denies what RBAC allows.")
	fs.DurationVar(&s.eventsTTL, "events-ttl", s.eventsTTL, "How long events about objects are kept that PediaClusters name in eventsInvolvedResources.")
	fs.DurationVar(&s.historyTTL, "history-ttl", s.historyTTL,
		"How long changes of objects are kept. A watch can go on where it was as far as these go.")
	fs.StringVar(&s.members.SecretNamespace, "secret-namespace", s.members.SecretNamespace,
		"Namespace of the Secrets that PediaClusters may name in authenticationFrom. Bind the user system:tripod:search a role there. Empty reads no Secrets.")
	fs.Int64Var(&s.answers, "answer-memory", s.answers,
		"Memory in bytes for the answers that are put together at once. A user gets half of it at most, and no more than is still free. Others wait, and are refused with 429 after some seconds.")
	s.limits.AddFlags(fs)
	fs.Int64Var(&s.templates.Memory, "template-memory", s.templates.Memory,
		"How many bytes of memory a template of a ClusterImportPolicy may take. It runs in a process of its own.")
	fs.DurationVar(&s.templates.Time, "template-time", s.templates.Time, "How long a template of a ClusterImportPolicy may run on a processor.")
}

// newCollections opens the store, too: storages are made before anything is served.
func (s *search) newCollections(*apiservice.Environment) (registryrest.Storage, error) {
	if err := checkRoles(s.roles); err != nil {
		return nil, err
	}
	if err := errors.Join(s.limits.Validate(), s.templates.Validate()); err != nil {
		return nil, err
	}
	if s.answers < 48<<20 {
		return nil, errors.New("--answer-memory must be at least 48Mi: 50331648")
	}
	if s.historyTTL < time.Minute {
		return nil, fmt.Errorf("--history-ttl must be at least 1m: watches are told each minute how far they are")
	}
	at, err := location(s.database, s.databaseFile)
	if err != nil {
		return nil, err
	}
	opened, err := store.Open(at)
	if err != nil {
		return nil, fmt.Errorf("--database: %w", err)
	}
	opened = opened.WithHub(s.members.Hub)
	s.store, s.rights = opened, rights.New(opened)
	registerMetrics(opened)
	s.handler = newHandler(opened, s.rights, nil, newBudget(s.answers))
	return newCollections(s.handler), nil
}

func checkRoles(roles []string) error {
	for _, role := range roles {
		if role != roleServe && role != roleSync {
			return fmt.Errorf("--roles: %q is neither %s nor %s", role, roleServe, roleSync)
		}
	}
	if len(roles) == 0 {
		return fmt.Errorf("--roles must name %s, %s or both", roleServe, roleSync)
	}
	return nil
}

// location returns where the database is.
func location(database, file string) (string, error) {
	if file == "" {
		return database, nil
	}
	if database != "" {
		return "", errors.New("--database-file takes the place of --database")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--database-file: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

func (s *search) checkDatabase(ctx context.Context, _ *apiservice.Environment) error {
	if !s.migrated.Load() {
		return fmt.Errorf("the database does not have its schema yet")
	}
	return s.store.Ping(ctx)
}

// start prepares the database, and begins to copy clusters if that is a role of this replica.
func (s *search) start(ctx context.Context, e *apiservice.Environment) error {
	if !slices.Contains(s.roles, roleSync) {
		go func() {
			if s.migrate(ctx) {
				s.rights.Run(ctx)
			}
		}()
		return nil
	}
	share, err := shards.New(s.store, shards.Standard)
	if err != nil {
		return err
	}
	door, err := member.NewDoor(s.limits)
	if err != nil {
		return err
	}
	shared := member.Shared{Store: s.store, Shards: share, Checks: member.NewChecks(s.store), Door: door}
	var hub *member.Member
	if s.members.Hub != "" {
		if hub, err = member.New(s.members.Hub, e.Cluster, member.Everything, shared); err != nil {
			return err
		}
	}
	config := rest.CopyConfig(e.Cluster)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	questions, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	go func() {
		if !s.migrate(ctx) {
			return
		}
		var group wait.Group
		group.StartWithContext(ctx, share.Run)
		group.StartWithContext(ctx, shared.Checks.Run)
		if hub != nil {
			group.StartWithContext(ctx, hub.Run)
		}
		if slices.Contains(s.roles, roleServe) {
			group.StartWithContext(ctx, s.rights.Run)
		}
		group.StartWithContext(ctx, func(ctx context.Context) { s.analyze(ctx, share) })
		group.StartWithContext(ctx, s.forgetEvents)
		group.StartWithContext(ctx, func(ctx context.Context) { s.prune(ctx, share) })
		define(ctx, client)
		definitions := crds.NewKeeper(client)
		group.StartWithContext(ctx, definitions.Run)
		group.StartWithContext(ctx, policies.New(client, questions, s.templates, definitions.Complete).Run)
		options := s.members
		options.Writable, options.TooLarge = definitions.Complete, s.rights.TooLarge
		members.New(client, options, shared).Run(ctx)
		group.Wait()
	}()
	return nil
}

// analyze lets the database look at its tables: soon, when a first list is complete, and then from time to time. One of the replicas does it.
func (s *search) analyze(ctx context.Context, share *shards.Shards) {
	for pause := time.Minute; ; pause = time.Hour {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !share.Mine("history") {
			continue
		}
		if err := s.store.Analyze(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "The database cannot look at its tables, so searches may be slow")
		}
	}
}

// forgetEvents removes old events from time to time.
func (s *search) forgetEvents(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if err := s.store.ForgetEvents(ctx, time.Now().Add(-s.eventsTTL)); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Cannot remove old events")
		}
	}, 10*time.Minute, 0.5, true)
}

// pruneInterval is the time between two looks at the end of the history.
const pruneInterval = 5 * time.Second

// prune removes old changes. One of the replicas does it.
func (s *search) prune(ctx context.Context, share *shards.Shards) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for more := share.Mine("history"); more && ctx.Err() == nil; {
			var err error
			if more, err = s.store.Prune(ctx, time.Now().Add(-s.historyTTL)); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Cannot remove old changes")
			}
		}
	}, pruneInterval)
}

// define creates the definitions of PediaClusters. It returns when they are there, or the context ends.
func define(ctx context.Context, client dynamic.Interface) {
	wait.PollUntilContextCancel(ctx, 2*time.Second, true, func(ctx context.Context) (bool, error) { //nolint:errcheck // the context ends everything
		err := crds.Apply(ctx, client)
		if err != nil {
			klog.V(2).InfoS("The CustomResourceDefinitions of search cannot be created yet", "err", err)
		}
		return err == nil, nil
	})
}

// migrate returns true when the database has its schema, and false if the context ends before. A database with a newer schema may be replaced by an
// older backup, so it is tried again, too.
func (s *search) migrate(ctx context.Context) bool {
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
