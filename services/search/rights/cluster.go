// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
)

// cluster has the RBAC objects of a cluster, and who readers are in it. It does not change.
type cluster struct {
	// serial is another number for each state of each cluster.
	serial int64
	// generation is that of the rights in the store, and began when reading them began.
	generation int64
	began      time.Time
	*identities
	// unknown is why the RBAC objects decide nothing now, or empty.
	unknown string
	// tooMany is set if there are more RBAC objects than count.
	tooMany bool

	roles               map[[2]string]*rbacv1.Role
	roleBindings        map[string][]*rbacv1.RoleBinding
	clusterRoles        map[string]*rbacv1.ClusterRole
	clusterRoleBindings []*rbacv1.ClusterRoleBinding
	// namespacesOf are the namespaces with bindings that may be about a subject.
	namespacesOf map[subject]sets.Set[string]
}

// subject is a user or a group.
type subject struct {
	group bool
	name  string
}

// Resources are those of RBAC objects. A cluster decides nothing before all of them were listed.
var Resources = sets.New("roles", "rolebindings", "clusterroles", "clusterrolebindings")

func newCluster(serial int64, who *identities) *cluster {
	return &cluster{
		serial: serial, identities: who, roles: map[[2]string]*rbacv1.Role{}, roleBindings: map[string][]*rbacv1.RoleBinding{},
		clusterRoles: map[string]*rbacv1.ClusterRole{}, namespacesOf: map[subject]sets.Set[string]{},
	}
}

func (c *cluster) add(object metav1.Object) {
	switch o := object.(type) {
	case *rbacv1.Role:
		c.roles[[2]string{o.Namespace, o.Name}] = o
	case *rbacv1.ClusterRole:
		c.clusterRoles[o.Name] = o
	case *rbacv1.ClusterRoleBinding:
		c.clusterRoleBindings = append(c.clusterRoleBindings, o)
	case *rbacv1.RoleBinding:
		c.roleBindings[o.Namespace] = append(c.roleBindings[o.Namespace], o)
		for _, s := range o.Subjects {
			of := subject{group: s.Kind == rbacv1.GroupKind, name: s.Name}
			if s.Kind == rbacv1.ServiceAccountKind {
				namespace := s.Namespace
				if namespace == "" {
					namespace = o.Namespace
				}
				of.name = serviceaccount.MakeUsername(namespace, s.Name)
			}
			if c.namespacesOf[of] == nil {
				c.namespacesOf[of] = sets.New[string]()
			}
			c.namespacesOf[of].Insert(o.Namespace)
		}
	}
}

// isHome reports whether the cluster is the one that search is part of.
func (c *cluster) isHome() bool { return c.identities != nil && c.policy.Home }

// grantsOf returns what the cluster grants a reader.
func (c *cluster) grantsOf(ctx context.Context, reader user.Info) (grants, error) {
	if c.unknown != "" {
		return nil, nil
	}
	who, err := c.of(ctx, reader)
	if err != nil || who == nil {
		return nil, err
	}
	var all grants
	everywhere := validation.NewDefaultRuleResolver(c, c, c, c)
	everywhere.VisitRulesFor(ctx, who, "", func(_ fmt.Stringer, rule *rbacv1.PolicyRule, _ error) bool {
		if readable(rule) {
			all = append(all, grant{rule: rule})
		}
		return true
	})
	namespaces := c.namespacesOf[subject{name: who.GetName()}].Clone()
	for _, group := range who.GetGroups() {
		namespaces = namespaces.Union(c.namespacesOf[subject{group: true, name: group}])
	}
	byRule := map[*rbacv1.PolicyRule]sets.Set[string]{}
	within := validation.NewDefaultRuleResolver(c, c, c, noBindings{})
	for _, namespace := range sets.List(namespaces) {
		within.VisitRulesFor(ctx, who, namespace, func(_ fmt.Stringer, rule *rbacv1.PolicyRule, _ error) bool {
			switch {
			case rule == nil || !readable(rule):
			case byRule[rule] != nil:
				byRule[rule].Insert(namespace)
			default:
				byRule[rule] = sets.New(namespace)
				all = append(all, grant{rule: rule, namespaces: byRule[rule]})
			}
			return true
		})
	}
	return all, nil
}

// noBindings are those of ClusterRoles where only those in a namespace count.
type noBindings struct{}

func (noBindings) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return nil, nil
}

// GetRole implements validation.RoleGetter.
func (c *cluster) GetRole(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	if role := c.roles[[2]string{namespace, name}]; role != nil {
		return role, nil
	}
	return nil, fmt.Errorf("there is no Role %s/%s", namespace, name)
}

// GetClusterRole implements validation.ClusterRoleGetter.
func (c *cluster) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	if role := c.clusterRoles[name]; role != nil {
		return role, nil
	}
	return nil, fmt.Errorf("there is no ClusterRole %s", name)
}

// ListRoleBindings implements validation.RoleBindingLister.
func (c *cluster) ListRoleBindings(_ context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	return c.roleBindings[namespace], nil
}

// ListClusterRoleBindings implements validation.ClusterRoleBindingLister.
func (c *cluster) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return c.clusterRoleBindings, nil
}
