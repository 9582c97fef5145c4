// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// Rule names resources to copy, as Clusterpedia's syncResources do.
type Rule struct {
	// Group is a group, or * for all.
	Group string
	// Versions are the versions to copy. If it is empty, that is the first version that has the resource, in the order of the member.
	Versions []string
	// Resources are plurals, or * for all.
	Resources []string
	// Events are plurals, or * for all: the resources of the group whose events are copied with them.
	Events []string
	// Custom leaves out the groups of Kubernetes.
	Custom bool
}

// Everything is all that a wildcard includes.
var Everything = []Rule{{Group: "*", Resources: []string{"*"}}}

// unmeant are resources that no wildcard includes: they are secret, or change all the time and are not searched.
var unmeant = []schema.GroupResource{
	{Resource: "secrets"},
	{Resource: "events"},
	{Group: "events.k8s.io", Resource: "events"},
	{Group: "coordination.k8s.io", Resource: "leases"},
}

// never are resources that are not copied even if they are named: their objects have credentials of search itself.
var never = []schema.GroupResource{{Group: "cluster.clusterpedia.io", Resource: "pediaclusters"}}

func (r Rule) hasGroup(group string) bool {
	return (r.Group == "*" || r.Group == group) && (!r.Custom || !clientgoscheme.Scheme.IsGroupRegistered(group))
}

// includes reports whether a rule is about a resource. One that can only be listed, such as measured values, changes with each list: it
// must be named.
func (r Rule) includes(resource schema.GroupResource, watchable bool) bool {
	if slices.Contains(never, resource) {
		return false
	}
	group := r.hasGroup(resource.Group)
	if group && r.Group != "*" && slices.Contains(r.Resources, resource.Resource) {
		return true
	}
	if !watchable {
		return false
	}
	named := slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, resource.Resource)
	return group && named && !slices.Contains(unmeant, resource)
}

// selectKinds returns the resources of a member that rules name, that can be listed, each once in a version.
func selectKinds(cluster string, groups []*metav1.APIGroup, lists []*metav1.APIResourceList, rules []Rule) (kinds []streams.Kind) {
	byVersion := map[schema.GroupVersion][]metav1.APIResource{}
	for _, list := range lists {
		if gv, err := schema.ParseGroupVersion(list.GroupVersion); err == nil {
			byVersion[gv] = list.APIResources
		}
	}
	chosen := map[schema.GroupVersionResource]bool{}
	for _, group := range groups {
		first := map[string]bool{}
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			for _, resource := range byVersion[gv] {
				if strings.Contains(resource.Name, "/") || !slices.Contains(resource.Verbs, "list") {
					continue
				}
				watchable := slices.Contains(resource.Verbs, "watch")
				wanted := slices.ContainsFunc(rules, func(r Rule) bool {
					return r.includes(schema.GroupResource{Group: group.Name, Resource: resource.Name}, watchable) &&
						(len(r.Versions) == 0 && !first[resource.Name] || slices.Contains(r.Versions, version.Version))
				})
				first[resource.Name] = first[resource.Name] || watchable || wanted
				if !wanted || chosen[gv.WithResource(resource.Name)] {
					continue
				}
				kind := kindOf(gv, resource)
				if err := checkNames(kind); err != nil {
					klog.V(2).InfoS("A resource of a member is not copied", "cluster", cluster, "err", err)
					continue
				}
				chosen[kind.GroupVersionResource] = true
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// limitKinds returns some of too many kinds: first those of Kubernetes, then others in the order of their names.
func limitKinds(kinds []streams.Kind, most int) ([]streams.Kind, *LimitError) {
	if len(kinds) <= most {
		return kinds, nil
	}
	reached := limited("resources", "member-max-resources", "of %d resources, %d are copied", len(kinds), most)
	return inOrder(slices.Values(kinds))[:most], reached
}

// kindOf returns a resource as a member describes it, as far as that is the member's to say. Names that no CustomResourceDefinition could
// have are left out.
func kindOf(gv schema.GroupVersion, r metav1.APIResource) streams.Kind {
	kind := streams.Kind{
		GroupVersionResource: gv.WithResource(r.Name), Name: r.Kind, Namespaced: r.Namespaced,
		Details: streams.Details{ShortNames: validNames(r.ShortNames), Categories: validNames(r.Categories)},
	}
	if isName(r.SingularName) {
		kind.Singular = r.SingularName
	}
	if known, ok := builtIn[kind.GroupResource()]; ok {
		kind.Name, kind.Namespaced = known.name, known.namespaced
	}
	return kind
}

// maxNames bounds the short names and the categories of a resource.
const maxNames = 32

func validNames(names []string) (valid []string) {
	for _, name := range names {
		if isName(name) && len(valid) < maxNames {
			valid = append(valid, name)
		}
	}
	return valid
}

func isName(text string) bool { return len(validation.IsDNS1035Label(text)) == 0 }

// checkNames returns why a resource is none that a CustomResourceDefinition could define. Its names become parts of paths and documents.
func checkNames(k streams.Kind) error {
	switch {
	case k.Group != "" && len(validation.IsDNS1123Subdomain(k.Group)) > 0:
		return fmt.Errorf("the group %q is no DNS subdomain", k.Group)
	case !isName(k.Version):
		return fmt.Errorf("the version %q of the group %s is no DNS label", k.Version, k.Group)
	case !isName(k.Resource):
		return fmt.Errorf("the resource %q of the group %s is no DNS label", k.Resource, k.Group)
	case !isName(strings.ToLower(k.Name)):
		return fmt.Errorf("the kind %q of the resource %s is no DNS label in lower case", k.Name, k.GroupResource())
	}
	return nil
}
