// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"

	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// grant is a rule that applies to a reader.
type grant struct {
	rule *rbacv1.PolicyRule
	// namespaces are those where it applies. They are nil if it applies everywhere, and to objects without a namespace.
	namespaces sets.Set[string]
}

type grants []grant

// Verbs are those of requests that rights decide about.
var Verbs = []string{"get", "list", "watch"}

// about returns the grants of a verb that are about a resource.
func (g grants) about(verb string, resource schema.GroupResource) grants {
	var some grants
	for _, one := range g {
		if rbacv1helpers.VerbMatches(one.rule, verb) && rbacv1helpers.APIGroupMatches(one.rule, resource.Group) &&
			rbacv1helpers.ResourceMatches(one.rule, resource.Resource, "") {
			some = append(some, one)
		}
	}
	return some
}

// namespaceOf returns the namespace whose bindings decide about an object. The URL of a Namespace is in itself.
func namespaceOf(resource schema.GroupResource, namespace, name string) string {
	if isNamespaces(resource) {
		return name
	}
	return namespace
}

func isNamespaces(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "namespaces"}
}

// allow reports whether any of the grants is about an object.
func (g grants) allow(namespace, name string) bool {
	for _, one := range g {
		if (one.namespaces == nil || one.namespaces.Has(namespace)) && rbacv1helpers.ResourceNameMatches(one.rule, name) {
			return true
		}
	}
	return false
}

// objectSet returns the objects that grants about a resource allow.
func (g grants) objectSet(resource schema.GroupResource) *access.ObjectSet {
	var namespaces, names []string
	var objects [][2]string
	for _, one := range g {
		if one.namespaces == nil && len(one.rule.ResourceNames) == 0 {
			return access.AllObjects
		}
		if one.namespaces == nil {
			names = append(names, one.rule.ResourceNames...)
		}
		for namespace := range one.namespaces {
			switch {
			case isNamespaces(resource):
				if rbacv1helpers.ResourceNameMatches(one.rule, namespace) {
					objects = append(objects, [2]string{"", namespace})
				}
			case len(one.rule.ResourceNames) == 0:
				namespaces = append(namespaces, namespace)
			default:
				for _, name := range one.rule.ResourceNames {
					objects = append(objects, [2]string{namespace, name})
				}
			}
		}
	}
	return access.NewObjectSet(namespaces, names, objects)
}
