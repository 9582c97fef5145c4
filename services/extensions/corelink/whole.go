// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package corelink

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"
)

// NewWholeClientset returns a client of core whose discovery and OpenAPI v3 also cover what the server of own serves.
func NewWholeClientset(core, own *rest.Config) (kubernetes.Interface, error) {
	clientset, err := kubernetes.NewForConfig(core)
	if err != nil {
		return nil, err
	}
	ownDiscovery, err := discovery.NewDiscoveryClientForConfig(own)
	if err != nil {
		return nil, err
	}
	return &wholeClientset{
		Interface: clientset,
		discovery: &wholeDiscovery{DiscoveryClient: clientset.DiscoveryClient, own: ownDiscovery},
	}, nil
}

type wholeClientset struct {
	kubernetes.Interface
	discovery *wholeDiscovery
}

// Discovery implements kubernetes.Interface.
func (c *wholeClientset) Discovery() discovery.DiscoveryInterface {
	return c.discovery
}

// wholeDiscovery answers for core (the embedded client) and for own together. When one of them fails, so does the
// answer: a kind must not seem unknown because a server is away.
type wholeDiscovery struct {
	*discovery.DiscoveryClient
	own *discovery.DiscoveryClient
}

var _ discovery.AggregatedDiscoveryInterface = &wholeDiscovery{}

// GroupsAndMaybeResources implements discovery.AggregatedDiscoveryInterface.
func (d *wholeDiscovery) GroupsAndMaybeResources() (
	*metav1.APIGroupList,
	map[schema.GroupVersion]*metav1.APIResourceList,
	map[schema.GroupVersion]error,
	error,
) {
	groups, resources, failed, err := d.DiscoveryClient.GroupsAndMaybeResources()
	if err != nil {
		return nil, nil, nil, err
	}
	ownGroups, ownResources, ownFailed, err := d.own.GroupsAndMaybeResources()
	if err != nil {
		return nil, nil, nil, err
	}
	groups.Groups = append(groups.Groups, ownGroups.Groups...)
	// Without aggregated discovery there are no resources; callers then ask for each group-version.
	if resources == nil || ownResources == nil {
		return groups, nil, nil, nil
	}
	maps.Copy(resources, ownResources)
	if failed == nil {
		failed = map[schema.GroupVersion]error{}
	}
	maps.Copy(failed, ownFailed)
	return groups, resources, failed, nil
}

// ServerGroups implements discovery.DiscoveryInterface.
func (d *wholeDiscovery) ServerGroups() (*metav1.APIGroupList, error) {
	groups, _, _, err := d.GroupsAndMaybeResources()
	return groups, err
}

// ServerResourcesForGroupVersion implements discovery.DiscoveryInterface.
func (d *wholeDiscovery) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	gv, err := schema.ParseGroupVersion(groupVersion)
	if err != nil {
		return nil, err
	}
	if servedByCore(gv) {
		return d.DiscoveryClient.ServerResourcesForGroupVersion(groupVersion)
	}
	return d.own.ServerResourcesForGroupVersion(groupVersion)
}

// ServerGroupsAndResources implements discovery.DiscoveryInterface.
func (d *wholeDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return discovery.ServerGroupsAndResources(d)
}

// OpenAPIV3 implements discovery.DiscoveryInterface.
func (d *wholeDiscovery) OpenAPIV3() openapi.Client {
	return wholeOpenAPI{core: d.DiscoveryClient.OpenAPIV3(), own: d.own.OpenAPIV3()}
}

type wholeOpenAPI struct {
	core, own openapi.Client
}

// Paths implements openapi.Client.
func (o wholeOpenAPI) Paths() (map[string]openapi.GroupVersion, error) {
	paths, err := o.core.Paths()
	if err != nil {
		return nil, err
	}
	ownPaths, err := o.own.Paths()
	if err != nil {
		return nil, err
	}
	maps.Copy(paths, ownPaths)
	return paths, nil
}

// NewWholeDynamicClient returns a client of built-in resources at core and of all others at the server of own.
func NewWholeDynamicClient(core, own *rest.Config) (dynamic.Interface, error) {
	coreClient, err := dynamic.NewForConfig(core)
	if err != nil {
		return nil, err
	}
	ownClient, err := dynamic.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	return &wholeDynamic{core: coreClient, own: ownClient}, nil
}

type wholeDynamic struct {
	core, own dynamic.Interface
}

// Resource implements dynamic.Interface.
func (d *wholeDynamic) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	if servedByCore(resource.GroupVersion()) {
		return d.core.Resource(resource)
	}
	return d.own.Resource(resource)
}

func servedByCore(gv schema.GroupVersion) bool {
	return clientgoscheme.Scheme.IsVersionRegistered(gv)
}
