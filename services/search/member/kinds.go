// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/tripod-k8s/tripod/services/search/store"
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

// unmeant are resources that no wildcard includes: they are secret, or change all the time without anybody searching them.
var unmeant = []schema.GroupResource{
	{Resource: "secrets"},
	{Group: "cluster.clusterpedia.io", Resource: "pediaclusters"}, // it has credentials
	{Resource: "events"},
	{Group: "events.k8s.io", Resource: "events"},
	{Group: "coordination.k8s.io", Resource: "leases"},
}

func (r Rule) includes(resource schema.GroupResource) bool {
	group := r.Group == "*" || r.Group == resource.Group
	if r.Custom {
		group = group && !clientgoscheme.Scheme.IsGroupRegistered(resource.Group)
	}
	if group && r.Group != "*" && slices.Contains(r.Resources, resource.Resource) {
		return true
	}
	named := slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, resource.Resource)
	return group && named && !slices.Contains(unmeant, resource)
}

// selectKinds returns the resources of a member that rules name, that can be listed and watched, each once in a version.
func selectKinds(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, rules []Rule) (kinds []store.Kind) {
	byVersion := map[schema.GroupVersion][]metav1.APIResource{}
	for _, list := range lists {
		if gv, err := schema.ParseGroupVersion(list.GroupVersion); err == nil {
			byVersion[gv] = list.APIResources
		}
	}
	for _, group := range groups {
		first := map[string]bool{}
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			for _, resource := range byVersion[gv] {
				if strings.Contains(resource.Name, "/") || !slices.Contains(resource.Verbs, "list") || !slices.Contains(resource.Verbs, "watch") {
					continue
				}
				wanted := slices.ContainsFunc(rules, func(r Rule) bool {
					return r.includes(schema.GroupResource{Group: group.Name, Resource: resource.Name}) &&
						(len(r.Versions) == 0 && !first[resource.Name] || slices.Contains(r.Versions, version.Version))
				})
				first[resource.Name] = true
				if wanted && isValid(gv, resource) {
					kinds = append(kinds, kindOf(gv, resource))
				}
			}
		}
	}
	return kinds
}

// limitKinds returns some of too many kinds: first those of Kubernetes, then others in the order of their names.
func limitKinds(kinds []store.Kind, most int) ([]store.Kind, *LimitError) {
	if len(kinds) <= most {
		return kinds, nil
	}
	foreign := func(k store.Kind) int {
		if clientgoscheme.Scheme.IsGroupRegistered(k.Group) {
			return 0
		}
		return 1
	}
	sorted := slices.SortedStableFunc(slices.Values(kinds), func(a, b store.Kind) int {
		return cmp.Or(cmp.Compare(foreign(a), foreign(b)), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Version, b.Version))
	})
	return sorted[:most], limited("resources", "member-max-resources", "of %d resources, %d are copied", len(kinds), most)
}

// isValid reports whether a resource has names that Kubernetes allows. Others would be part of URLs and answers of search.
func isValid(gv schema.GroupVersion, r metav1.APIResource) bool {
	for _, name := range append(append([]string{gv.Version, r.Name, strings.ToLower(r.Kind)}, r.ShortNames...), r.Categories...) {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return false
		}
	}
	return (gv.Group == "" || len(validation.IsDNS1123Subdomain(gv.Group)) == 0) && (r.SingularName == "" || len(validation.IsDNS1123Label(r.SingularName)) == 0) &&
		len(r.ShortNames)+len(r.Categories) <= maxAliases
}

// maxAliases is how many short names and categories a resource may have.
const maxAliases = 50

func kindOf(gv schema.GroupVersion, r metav1.APIResource) store.Kind {
	return store.Kind{
		GroupVersionResource: gv.WithResource(r.Name), Name: r.Kind, Namespaced: r.Namespaced,
		Details: store.Details{Singular: r.SingularName, ShortNames: r.ShortNames, Categories: r.Categories},
	}
}

// maxColumns bounds the JSON of printer columns.
const maxColumns = 64 << 10

// columns returns the printer columns of a custom resource, or nothing: not every member lets its definitions be read.
func (m *Member) columns(ctx context.Context, kind store.Kind) []byte {
	if clientgoscheme.Scheme.IsGroupRegistered(kind.Group) {
		return nil
	}
	text, err := m.single(ctx, m.client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
		Param("fieldSelector", "metadata.name="+kind.Resource+"."+kind.Group))
	if err != nil {
		return nil
	}
	var list struct {
		Items []struct {
			Spec struct {
				Versions []struct {
					Name                     string          `json:"name"`
					AdditionalPrinterColumns json.RawMessage `json:"additionalPrinterColumns"`
				} `json:"versions"`
			} `json:"spec"`
		} `json:"items"`
	}
	if json.Unmarshal(text, &list) != nil || len(list.Items) == 0 {
		return nil
	}
	for _, version := range list.Items[0].Spec.Versions {
		if version.Name == kind.Version && len(version.AdditionalPrinterColumns) <= maxColumns {
			return version.AdditionalPrinterColumns
		}
	}
	return nil
}
