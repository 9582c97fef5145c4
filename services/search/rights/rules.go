// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// maxListed bounds the rules of Rules, and maxListedText their text: a user who may write Roles may name megabytes of objects.
const maxListed, maxListedText = 10_000, 256 << 10

// Rules returns the rules by which the reader may see objects in a namespace of a cluster, or of any for AllClusters: those of the cluster,
// and the grants of the hub as if they were rules of the cluster. They are not all if complete is false. Grants that Granting has added are
// not among them.
func (v *AccessSet) Rules(cluster, namespace string) (rules []rbacv1.PolicyRule, complete bool) {
	clusters := []string{cluster}
	if cluster == AllClusters {
		clusters = v.clusters()
	}
	complete = v.knowsHub
	seen, left := sets.New[string](), maxListedText
	add := func(rule rbacv1.PolicyRule) {
		size := sizeOf(rule.APIGroups) + sizeOf(rule.Resources) + sizeOf(rule.ResourceNames)
		if size > left {
			complete = false
			return
		}
		if len(rule.Verbs) == 0 || len(rule.Resources) == 0 || seen.Has(access.RuleText(&rule)) {
			return
		}
		if len(rules) == maxListed {
			complete = false
			return
		}
		left -= size
		seen.Insert(access.RuleText(&rule))
		rules = append(rules, rule)
	}
	for _, name := range clusters {
		for _, g := range v.grants(name) {
			if g.namespaces == nil || g.namespaces.Has(namespace) {
				add(rbacv1.PolicyRule{
					Verbs: readingVerbs(g.rule), APIGroups: g.rule.APIGroups, Resources: wholeResources(g.rule), ResourceNames: g.rule.ResourceNames,
				})
			}
		}
	}
	for _, g := range v.hub {
		if isAbout(g, cluster) || cluster == AllClusters && g.namespaces == nil &&
			rbacv1helpers.APIGroupMatches(g.rule, v1beta1.GroupVersion.Group) {
			for _, of := range grantedResources(g.rule) {
				add(rbacv1.PolicyRule{Verbs: readingVerbs(g.rule), APIGroups: []string{of.Group}, Resources: []string{of.Resource}})
			}
		}
	}
	return rules, complete
}

// sizeOf returns about how many bytes texts take in JSON.
func sizeOf(texts []string) (bytes int) {
	for _, text := range texts {
		bytes += len(text) + 3
	}
	return bytes
}

// readingVerbs returns the verbs of a rule that search answers.
func readingVerbs(rule *rbacv1.PolicyRule) []string {
	return slices.DeleteFunc(slices.Clone(Verbs), func(verb string) bool { return !rbacv1helpers.VerbMatches(rule, verb) })
}

// wholeResources returns the resources of a rule that are no subresources.
func wholeResources(rule *rbacv1.PolicyRule) []string {
	return slices.DeleteFunc(slices.Clone(rule.Resources), func(name string) bool { return strings.Contains(name, "/") })
}

// grantedResources returns the resources of clusters that a rule of the hub is about. A * stands for all.
func grantedResources(rule *rbacv1.PolicyRule) (all []schema.GroupResource) {
	for _, name := range rule.Resources {
		of, sub, isSub := strings.Cut(name, "/")
		switch {
		case of != rbacv1.ResourceAll && of != Resource:
		case !isSub:
			all = append(all, schema.GroupResource{Group: rbacv1.APIGroupAll, Resource: rbacv1.ResourceAll})
		default:
			all = append(all, schema.ParseGroupResource(sub))
		}
	}
	return all
}
