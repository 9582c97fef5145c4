// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func some[T any](r *rand.Rand, values ...T) (chosen []T) {
	for range 1 + r.IntN(2) {
		chosen = append(chosen, pick(r, values...))
	}
	return chosen
}

var (
	namespaces = []string{"default", "kube-system", "team-a", "team-b"}
	names      = []string{"web", "db", "team-a", "default"}
	users      = []string{"alice", "bob", "system:serviceaccount:team-a:robot"}
	groups     = []string{"dev", "ops", "system:serviceaccounts:team-a", user.AllAuthenticated}
	resources  = []schema.GroupResource{
		{Resource: "pods"}, {Resource: "namespaces"}, {Resource: "nodes"}, {Group: "apps", Resource: "deployments"}, {Group: "example.com", Resource: "pods"},
	}
)

func randomRules(r *rand.Rand) (rules []rbacv1.PolicyRule) {
	for range r.IntN(3) {
		rule := rbacv1.PolicyRule{
			Verbs:     some(r, "get", "list", "watch", "create", "*"),
			APIGroups: some(r, "", "apps", "example.com", "*"),
			Resources: some(r, "pods", "pods/log", "*/log", "namespaces", "nodes", "deployments", "deployments/*", "*"),
		}
		if r.IntN(2) == 0 {
			rule.ResourceNames = some(r, names...)
		}
		if r.IntN(8) == 0 {
			rule = rbacv1.PolicyRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}
		}
		rules = append(rules, rule)
	}
	return rules
}

func randomSubjects(r *rand.Rand) (subjects []rbacv1.Subject) {
	for range r.IntN(3) {
		subjects = append(subjects, pick(r,
			rbacv1.Subject{Kind: rbacv1.UserKind, Name: pick(r, users...)},
			rbacv1.Subject{Kind: rbacv1.GroupKind, Name: pick(r, groups...)},
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: pick(r, "team-a", "team-b", ""), Name: "robot"},
			rbacv1.Subject{Kind: "Robot", Name: "alice"},
		))
	}
	return subjects
}

// policy is what the RBAC objects of a cluster grant.
type policy struct {
	roles               []*rbacv1.Role
	roleBindings        []*rbacv1.RoleBinding
	clusterRoles        []*rbacv1.ClusterRole
	clusterRoleBindings []*rbacv1.ClusterRoleBinding
}

func randomPolicy(r *rand.Rand) (p policy) {
	named := func(i int, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: fmt.Sprint("r", i), Namespace: namespace}
	}
	role := func(kinds ...string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: pick(r, kinds...), Name: fmt.Sprint("r", r.IntN(4))} // which may not be there
	}
	for i := range 3 {
		for _, namespace := range namespaces {
			if r.IntN(2) == 0 {
				p.roles = append(p.roles, &rbacv1.Role{ObjectMeta: named(i, namespace), Rules: randomRules(r)})
			}
			if r.IntN(2) == 0 {
				p.roleBindings = append(p.roleBindings, &rbacv1.RoleBinding{ObjectMeta: named(i, namespace), RoleRef: role("Role", "ClusterRole"), Subjects: randomSubjects(r)})
			}
		}
		p.clusterRoles = append(p.clusterRoles, &rbacv1.ClusterRole{ObjectMeta: named(i, ""), Rules: randomRules(r)})
		if r.IntN(3) == 0 {
			p.clusterRoleBindings = append(p.clusterRoleBindings,
				&rbacv1.ClusterRoleBinding{ObjectMeta: named(i, ""), RoleRef: role("ClusterRole", "ClusterRole", "Role"), Subjects: randomSubjects(r)})
		}
	}
	return p
}

func (p policy) objects() (all []metav1.Object) {
	for _, o := range p.roles {
		all = append(all, o)
	}
	for _, o := range p.roleBindings {
		all = append(all, o)
	}
	for _, o := range p.clusterRoles {
		all = append(all, o)
	}
	for _, o := range p.clusterRoleBindings {
		all = append(all, o)
	}
	return all
}

func randomReader(r *rand.Rand) user.Info {
	reader := &user.DefaultInfo{Name: pick(r, users...)}
	if r.IntN(2) == 0 {
		reader.Groups = some(r, groups...)
	}
	return reader
}

// TestVisibleIsWhatKubernetesAllows compares with the authorizer of Kubernetes: an object is visible if a request for its URL is allowed.
func TestVisibleIsWhatKubernetesAllows(t *testing.T) {
	const policies = 3000
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	who, err := newIdentities(Policy{Home: true})
	require.NoError(t, err)
	shown, hidden := 0, 0
	for range policies {
		p := randomPolicy(r)
		_, static := validation.NewTestRuleResolver(p.roles, p.roleBindings, p.clusterRoles, p.clusterRoleBindings)
		kubernetes := rbac.New(static, static, static, static)
		c := newCluster(1, who)
		for _, object := range p.objects() {
			c.add(object)
		}
		c.index()
		reader := randomReader(r)
		granted, err := c.grantsOf(t.Context(), reader)
		require.NoError(t, err)
		verb := pick(r, Verbs...)
		v := &AccessSet{reader: reader, verb: verb, states: map[string]*cluster{"c": c}, evaluate: func(string, *cluster) grants { return granted }}
		for _, resource := range resources {
			for _, namespace := range append([]string{""}, namespaces...) {
				clusterScoped := resource.Resource == "namespaces" || resource.Resource == "nodes"
				if clusterScoped != (namespace == "") {
					continue
				}
				for _, name := range names {
					want := allowed(t.Context(), kubernetes, reader, verb, resource, namespace, name)
					if !assert.Equal(t, want, v.Allows("c", resource, namespace, name), "seed %d: %s %s %s/%s by %v: %+v", seed, verb, resource, namespace, name, reader, p) ||
						!assert.Equal(t, want, v.ObjectSet("c", resource).Has(namespace, name), "seed %d: part of %s %s %s/%s", seed, verb, resource, namespace, name) {
						return
					}
					assert.False(t, want && !v.AllowsAny("c", resource, namespace), "seed %d", seed)
					assert.False(t, want && !v.AllowsAny(AllClusters, resource, ""), "seed %d", seed)
					assert.False(t, want && !v.AllowsAnyIn("c"), "seed %d", seed)
					assert.False(t, v.Allows("d", resource, namespace, name), "another cluster")
					if want {
						shown++
					} else {
						hidden++
					}
				}
			}
		}
	}
	assert.Greater(t, shown, policies/4, "seed %d", seed)
	assert.Greater(t, hidden, policies, "seed %d", seed)
}

func allowed(ctx context.Context, by authorizer.Authorizer, reader user.Info, verb string, resource schema.GroupResource, namespace, name string) bool {
	if resource.Resource == "namespaces" {
		namespace = name // as request.RequestInfoFactory reads /api/v1/namespaces/NAME
	}
	decision, _, _ := by.Authorize(ctx, authorizer.AttributesRecord{
		User: reader, Verb: verb, APIGroup: resource.Group, Resource: resource.Resource, Namespace: namespace, Name: name, ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow
}
