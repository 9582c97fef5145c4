// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

// NewAuthorizer returns the authorizer that allows Tripod's other services what the rules list. self is the user name of this service. The
// authorizer never denies: it has no opinion on anything else. It recognises services by the users that [BackendOptions.ApplyTo] gives
// them. Replicas of this service itself are allowed nothing.
func NewAuthorizer(self string) authorizer.Authorizer {
	policy := staticPolicy{}
	return &serviceAuthorizer{self: self, rbac: rbac.New(policy, policy, policy, policy), used: newUsedRights()}
}

// serviceAuthorizer applies the rules to services, and not to users with the same names.
type serviceAuthorizer struct {
	self string
	rbac authorizer.Authorizer
	used *usedRights
}

func (a *serviceAuthorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	name := ServiceOf(attributes.GetUser())
	if name == "" || name == a.self {
		return authorizer.DecisionNoOpinion, "", nil
	}
	// Core's rule has a wildcard. For RBAC that includes subresources, such as logs and proxies, which core must not read.
	if name == Core && attributes.GetSubresource() != "" {
		return authorizer.DecisionNoOpinion, "", nil
	}
	decision, reason, err := a.rbac.Authorize(ctx, attributes)
	if decision == authorizer.DecisionAllow {
		a.used.note(attributes)
	}
	return decision, reason, err
}

// staticPolicy gives serviceRules to the RBAC evaluator, as one ClusterRole and one ClusterRoleBinding for each service, both with the name
// of the service's user.
type staticPolicy struct{}

func (staticPolicy) GetRole(_ context.Context, _, name string) (*rbacv1.Role, error) {
	return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), name)
}

func (staticPolicy) ListRoleBindings(context.Context, string) ([]*rbacv1.RoleBinding, error) {
	return nil, nil
}

func (staticPolicy) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	rules, ok := serviceRules[name]
	if !ok {
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
	}
	role := &rbacv1.ClusterRole{Rules: rules}
	role.Name = name
	return role, nil
}

func (staticPolicy) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	bindings := make([]*rbacv1.ClusterRoleBinding, 0, len(serviceRules))
	for name := range serviceRules {
		binding := &rbacv1.ClusterRoleBinding{
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		}
		binding.Name = name
		bindings = append(bindings, binding)
	}
	return bindings, nil
}
