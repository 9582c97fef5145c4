// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// resources are the versions of each resource that can be followed, the preferred one first.
type resources map[schema.GroupResource][]string

func discover(client discovery.DiscoveryInterface) (resources, error) {
	groups, lists, err := client.ServerGroupsAndResources()
	var failed *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &failed) { // an aggregated API server is away
		return nil, err
	}
	byVersion := map[string][]metav1.APIResource{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list.APIResources
	}
	all := resources{}
	for _, group := range groups {
		versions := slices.Clone(group.Versions)
		slices.SortStableFunc(versions, func(a, b metav1.GroupVersionForDiscovery) int {
			return preference(group, a) - preference(group, b)
		})
		for _, version := range versions {
			for _, r := range byVersion[version.GroupVersion] {
				if !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
					name := schema.GroupResource{Group: group.Name, Resource: r.Name}
					all[name] = append(all[name], version.Version)
				}
			}
		}
	}
	return all, nil
}

func preference(group *metav1.APIGroup, version metav1.GroupVersionForDiscovery) int {
	if version == group.PreferredVersion {
		return 0
	}
	return 1
}

// version returns the version of a resource to follow. wanted are those that may be; none stands for any.
func (r resources) version(group, resource string, wanted []string) (schema.GroupVersionResource, error) {
	name := schema.GroupResource{Group: group, Resource: resource}
	has := r[name]
	for _, version := range has {
		if len(wanted) == 0 || slices.Contains(wanted, version) {
			return name.WithVersion(version), nil
		}
	}
	if len(has) == 0 {
		return schema.GroupVersionResource{}, fmt.Errorf("the cluster has no resource %s that can be listed and watched", name)
	}
	return schema.GroupVersionResource{}, fmt.Errorf("the cluster has %s in the versions %s only", name, strings.Join(has, ", "))
}
