// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"cmp"
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/klog/v2"
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
	// closed are namespaces whose RBAC objects decide nothing now, and why. recheck is set if they may have room again, which the next whole
	// reading has it.
	closed  map[string]string
	recheck bool
	// tooLarge are those among them that take too much memory.
	tooLarge map[string]string

	roles               map[[2]string]*rbacv1.Role
	roleBindings        map[string][]*rbacv1.RoleBinding
	clusterRoles        map[string]*rbacv1.ClusterRole
	clusterRoleBindings []*rbacv1.ClusterRoleBinding
	// namespacesOf are the namespaces with bindings that may be about a subject.
	namespacesOf map[subject][]string
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
		clusterRoles: map[string]*rbacv1.ClusterRole{}, namespacesOf: map[subject][]string{},
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
	}
}

// index notes which namespaces have bindings that may be about a subject. Call it once all objects are there.
func (c *cluster) index() {
	for namespace, bindings := range c.roleBindings {
		for _, binding := range bindings {
			for _, s := range binding.Subjects {
				of := subject{group: s.Kind == rbacv1.GroupKind, name: s.Name}
				if s.Kind == rbacv1.ServiceAccountKind {
					of.name = serviceaccount.MakeUsername(cmp.Or(s.Namespace, namespace), s.Name)
				}
				if known := c.namespacesOf[of]; len(known) == 0 || known[len(known)-1] != namespace {
					c.namespacesOf[of] = append(known, namespace)
				}
			}
		}
	}
}

// log says what decides nothing now, and did before.
func (c *cluster) log(name string, before *cluster) {
	const most = 10
	if c.unknown != "" && (before == nil || before.unknown != c.unknown) {
		klog.InfoS("The RBAC of a cluster does not count", "cluster", name, "reason", c.unknown)
	}
	logged := 0
	for namespace, why := range c.closed {
		if logged < most && namespace != clusterWide && (before == nil || before.closed[namespace] != why) {
			logged++
			klog.InfoS("The RBAC of a namespace does not count", "cluster", name, "namespace", namespace, "reason", why)
		}
	}
}

// isHome reports whether the cluster is the one that search is part of.
func (c *cluster) isHome() bool { return c.identities != nil && c.policy.Home }

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
