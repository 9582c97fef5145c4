// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/tripod-k8s/tripod/base/hop/link"
)

// reviewTimeout is how long core may take to say what a node may do. A request waits for that, and CEL does not say
// when it was given up.
const reviewTimeout = 10 * time.Second

// byGraph are the requests of nodes that mode Node decides by its graph. All of them are for what core serves, and with the
// graph empty, as it is here, none is allowed.
var byGraph = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"configmaps", "pods", "secrets"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims", "persistentvolumes", "serviceaccounts"}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims/status"}, Verbs: []string{"update", "patch"}},
	{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
	{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"podcertificaterequests"}, Verbs: []string{"get"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims"}, Verbs: []string{"get"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}, Verbs: []string{"get", "update", "patch", "delete"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments"}, Verbs: []string{"get"}},
}

// nodes is an authorizer with mode Node whose graph is empty, and core, which has the graph, for what that would decide.
type nodes struct {
	authorizer.Authorizer
	identifier nodeidentifier.NodeIdentifier
	core       authorizer.Authorizer
}

// hasNodes reports whether mode Node is configured. A file that changes can neither add nor remove it.
func hasNodes(config *apiserver.AuthorizationConfiguration) bool {
	return slices.ContainsFunc(config.Authorizers, func(a apiserver.AuthorizerConfiguration) bool { return string(a.Type) == modes.ModeNode })
}

func newNodes(local authorizer.Authorizer, core *rest.Config) (*nodes, error) {
	client, err := authorizationv1client.NewForConfig(core)
	if err != nil {
		return nil, fmt.Errorf("client of core: %w", err)
	}
	// Answers are not kept: kube-apiserver looks at its graph each time.
	once, noTTL := wait.Backoff{Steps: 1}, time.Duration(0)
	asked, err := webhook.NewFromInterface(client, noTTL, noTTL, once, authorizer.DecisionNoOpinion, webhookmetrics.NoopAuthorizerMetrics{},
		nil)
	if err != nil {
		return nil, err
	}
	return &nodes{Authorizer: local, identifier: nodeidentifier.NewDefaultNodeIdentifier(), core: asked}, nil
}

// Authorize implements authorizer.Authorizer. Mode Node never denies, so what is allowed without the graph is allowed with it.
// Anything else core allows if its modes do, asked in their order: here one behind Node may have denied what Node would allow.
func (n *nodes) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := n.Authorizer.Authorize(ctx, attributes)
	if decision == authorizer.DecisionAllow || !n.needGraph(attributes) {
		return decision, reason, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reviewTimeout, link.ErrSilent)
	defer cancel()
	answer, why, cannotAsk := n.core.Authorize(ctx, attributes)
	if answer == authorizer.DecisionAllow {
		return answer, why, cannotAsk
	}
	return decision, reason, errors.Join(err, cannotAsk)
}

func (n *nodes) needGraph(attributes authorizer.Attributes) bool {
	_, isNode := n.identifier.NodeIdentity(attributes.GetUser())
	return isNode && rbac.RulesAllow(attributes, byGraph...)
}
