// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// errNotSynced is why a request can be neither allowed nor denied.
var errNotSynced = errors.New("the objects that decide about them were not all received yet")

// Policy decides what users may do. It is an authorizer, a rule resolver and a health check of readiness.
type Policy struct {
	authorizer authorizer.Authorizer
	rules      authorizer.RuleResolver
	// follow runs what the decisions depend on until the context ends, and synced says whether all of it was received once.
	follow func(context.Context)
	synced func() bool
}

var (
	_ authorizer.Authorizer   = &Policy{}
	_ authorizer.RuleResolver = &Policy{}
)

// New returns the policy of options that are complete and valid. RBAC objects, if they are used, are read from core, once
// the policy runs; with mode Node, core is asked what only its graph has. Requests to core should fail at once while that
// is away, and not wait for it. The file of --authorization-config is followed until ctx ends. serverID is in the metrics of
// that; webhooks are called through egress, which may be nil.
func New(
	ctx context.Context,
	o *Options,
	core *rest.Config,
	serverID string,
	egress *egressselector.EgressSelector,
) (*Policy, error) {
	config, err := o.authorizerConfig()
	if err != nil {
		return nil, fmt.Errorf("invalid authorization config: %w", err)
	}
	if egress != nil {
		if config.CustomDial, err = egress.Lookup(egressselector.ControlPlane.AsNetworkContext()); err != nil {
			return nil, fmt.Errorf("way to authorization webhooks: %w", err)
		}
	}
	informers, err := newFactory(core)
	if err != nil {
		return nil, fmt.Errorf("client of core: %w", err)
	}
	// Informers are asked for here, and never when the file changes: one cannot add RBAC.
	config.VersionedInformerFactory = informers
	p := &Policy{follow: informers.run, synced: Once(informers.synced)}
	if p.authorizer, p.rules, err = config.New(ctx, serverID); err != nil {
		return nil, fmt.Errorf("invalid authorization config: %w", err)
	}
	if hasNodes(config.AuthorizationConfiguration) {
		if p.authorizer, err = newNodes(p.authorizer, core); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// ApplyTo makes the policy decide for a server, run with it, and keep it unready until the policy is synced. It does not
// put the gate into the handler chain.
func (p *Policy) ApplyTo(config *server.Config) error {
	config.Authorization.Authorizer = p
	config.RuleResolver = p
	config.AddReadyzChecks(p)
	return config.AddPostStartHook("start-policy-informers", func(hook server.PostStartHookContext) error {
		go p.Run(hook)
		return nil
	})
}

// Run follows the RBAC objects of core until the context ends.
func (p *Policy) Run(ctx context.Context) {
	p.follow(ctx)
}

// Synced reports whether everything that decisions depend on was received once. It stays so while core is away: what is
// known then stays in force.
func (p *Policy) Synced() bool {
	return p.synced()
}

// Once returns a function that asks another one until its answer is yes, and never again.
func Once(synced func() bool) func() bool {
	var before atomic.Bool
	return func() bool {
		if before.Load() {
			return true
		}
		is := synced()
		if is {
			before.Store(true)
		}
		return is
	}
}

// Authorize implements authorizer.Authorizer. Before the policy is synced it fails, unless the request is allowed already:
// RBAC objects only ever allow, so what was received of them cannot allow too much.
func (p *Policy) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	synced := p.Synced() // as the decision must not be older than the answer to this
	decision, reason, err := p.authorizer.Authorize(ctx, attributes)
	if synced || decision == authorizer.DecisionAllow {
		return decision, reason, err
	}
	return authorizer.DecisionNoOpinion, "", errNotSynced
}

// RulesFor implements authorizer.RuleResolver. Before the policy is synced its answer is incomplete.
func (p *Policy) RulesFor(
	ctx context.Context, u user.Info, namespace string,
) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	synced := p.Synced()
	resources, paths, incomplete, err := p.rules.RulesFor(ctx, u, namespace)
	if !synced {
		return resources, paths, true, errors.Join(err, errNotSynced)
	}
	return resources, paths, incomplete, err
}

// UntilSynced returns an authorizer with the opinion of another until the policy is synced, and none afterwards.
func (p *Policy) UntilSynced(other trust.Unconditional) trust.Unconditional {
	return authorizer.AuthorizerFunc(func(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
		if p.Synced() {
			return authorizer.DecisionNoOpinion, "", nil
		}
		return other.Authorize(ctx, attributes)
	})
}

// Name implements healthz.HealthChecker.
func (p *Policy) Name() string {
	return "policy"
}

// Check implements healthz.HealthChecker. It fails until the policy is synced.
func (p *Policy) Check(*http.Request) error {
	if p.Synced() {
		return nil
	}
	return errNotSynced
}
