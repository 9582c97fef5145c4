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

// NewAuthorizer returns the authorizer of a service, named by its user, that allows Tripod's other services what they need,
// and has no opinion on anything else: it never denies. It knows services by what BackendOptions.ApplyTo makes of their
// connections. Replicas of the service itself have nothing to ask here, and are allowed nothing.
func NewAuthorizer(self string) authorizer.Authorizer {
	policy := staticPolicy{}
	return &serviceAuthorizer{self: self, rbac: rbac.New(policy, policy, policy, policy)}
}

// serviceAuthorizer applies the rules to services alone, and not to users that only have their names.
type serviceAuthorizer struct {
	self string
	rbac authorizer.Authorizer
}

func (a *serviceAuthorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	name := ServiceOf(attributes.GetUser())
	if name == "" || name == a.self {
		return authorizer.DecisionNoOpinion, "", nil
	}
	// What core may read is said with a wildcard, which for RBAC stands for subresources too: for logs, and for proxies.
	if name == Core && attributes.GetSubresource() != "" {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return a.rbac.Authorize(ctx, attributes)
}

// staticPolicy presents serviceRules to the RBAC evaluator: for each service one ClusterRole and one
// ClusterRoleBinding, both named like the service's user.
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
