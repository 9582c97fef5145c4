// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
				if wanted {
					kinds = append(kinds, kindOf(gv, resource))
				}
			}
		}
	}
	return kinds
}

func kindOf(gv schema.GroupVersion, r metav1.APIResource) store.Kind {
	return store.Kind{
		GroupVersionResource: gv.WithResource(r.Name), Name: r.Kind, Namespaced: r.Namespaced,
		Details: store.Details{Singular: r.SingularName, ShortNames: r.ShortNames, Categories: r.Categories},
	}
}

// columns returns the printer columns of a custom resource, or nothing: not every member lets its definitions be read.
func (m *Member) columns(ctx context.Context, kind store.Kind) []byte {
	if clientgoscheme.Scheme.IsGroupRegistered(kind.Group) {
		return nil
	}
	text, err := m.client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
		Param("fieldSelector", "metadata.name="+kind.Resource+"."+kind.Group).DoRaw(ctx)
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
		if version.Name == kind.Version {
			return version.AdditionalPrinterColumns
		}
	}
	return nil
}
