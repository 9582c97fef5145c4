// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storages tests how the storages of custom resources are divided among the replicas of extensions, each a
// process of its own.
package storages

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	groups   = 200
	replicas = 3
	// fewest and most are what is about a third: which resources a replica gets depends on its address, and 95 % of the time it is
	// 54 to 80 of 200.
	fewest, most = 40, 94
	// moreConnections is how many connections to etcd a replica may open for all of its storages.
	moreConnections = 3
)

type cluster struct {
	*framework.Fleet
	// gateways count the connections to etcd of each replica of extensions.
	gateways map[string]*framework.Gateway
}

func TestStoragesAreDividedAmongReplicas(t *testing.T) {
	c := start(t)
	resources := define(t, c.Admin())
	storages := func() (each map[string]int, sum int) {
		t.Helper()
		each = map[string]int{}
		for name := range c.gateways {
			value, err := c.Metric(t.Context(), name, "tripod_custom_resource_storages")
			require.NoError(t, err)
			each[name] = int(value)
			sum += int(value)
		}
		return each, sum
	}
	if each, sum := storages(); sum != 0 {
		t.Errorf("storages exist before the first request for custom resources: %v", each)
	}
	connections := map[string]int64{}
	for name, gateway := range c.gateways {
		connections[name] = gateway.Open.Load()
	}

	informers := watchAll(t, c.Admin(), resources)
	before, sum := storages()
	t.Logf("storages while a client watches %d resources: %v", groups, before)
	// A replica that has much to do when a resource is first asked for may leave it to another; that is the exception.
	if sum < groups || sum > groups+groups/20 {
		t.Errorf("%d storages exist for %d resources", sum, groups)
	}
	for name, n := range before {
		if n < fewest || n > most {
			t.Errorf("%s has %d storages, not about %d", name, n, groups/replicas)
		}
		if more := c.gateways[name].Open.Load() - connections[name]; more > moreConnections {
			t.Errorf("%s has opened %d connections to etcd for %d storages", name, more, n)
		}
	}

	const leaves = "extensions-2"
	require.NoError(t, c.Replica(leaves).Kill())
	delete(c.gateways, leaves)
	touchAll(t, c.Admin(), resources)
	informers.see(t, "touched")
	after, sum := storages()
	t.Logf("storages without %s: %v", leaves, after)
	if moved := sum - before["extensions-0"] - before["extensions-1"]; moved < before[leaves]-groups/20 || moved > before[leaves]+groups/20 {
		t.Errorf("%d storages were made when a replica with %d left", moved, before[leaves])
	}
}

func start(t *testing.T) *cluster {
	t.Helper()
	environment := framework.ForTest(t)
	etcd, err := environment.StartEtcd(t.Context(), environment.Dir)
	require.NoError(t, err)
	c := &cluster{gateways: map[string]*framework.Gateway{}}
	options := framework.FleetOptions{EtcdURL: etcd, Replicas: []framework.ReplicaOptions{{Name: "core-0"}}}
	for i := range replicas {
		name := fmt.Sprintf("extensions-%d", i)
		c.gateways[name] = environment.NewGateway(t, etcd)
		options.Replicas = append(options.Replicas, framework.ReplicaOptions{Name: name, EtcdURL: c.gateways[name].URL()})
	}
	options.Replicas = append(options.Replicas, framework.ReplicaOptions{Name: "aggregator-0"})
	if c.Fleet, err = environment.StartFleet(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	return c
}

// define makes one resource in each of many groups.
func define(t *testing.T, config *rest.Config) []schema.GroupVersionResource {
	t.Helper()
	client, err := apiextensions.NewForConfig(config)
	require.NoError(t, err)
	resources := make([]schema.GroupVersionResource, groups)
	making, ctx := errgroup.WithContext(t.Context())
	making.SetLimit(8)
	for i := range resources {
		resources[i] = schema.GroupVersionResource{Group: fmt.Sprintf("group-%d.example.com", i), Version: "v1", Resource: "things"}
		making.Go(func() error {
			_, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, definition(resources[i]), metav1.CreateOptions{})
			return err
		})
	}
	require.NoError(t, making.Wait())
	dynamicClient, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	framework.Eventually(t, "all definitions are established", func(ctx context.Context) error {
		list, err := dynamicClient.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range list.Items {
			if !established(item) {
				return fmt.Errorf("%s is not", item.GetName())
			}
		}
		return nil
	})
	return resources
}

func definition(resource schema.GroupVersionResource) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: resource.GroupResource().String()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: resource.Group,
			Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: resource.Resource, Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: resource.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

func established(definition unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["type"] == "Established" {
			return c["status"] == "True"
		}
	}
	return false
}

// everything are informers of all the resources, as a garbage collector has them.
type everything struct {
	metadatainformer.SharedInformerFactory
	resources []schema.GroupVersionResource
}

// watchAll returns when the informers know all objects.
func watchAll(t *testing.T, config *rest.Config, resources []schema.GroupVersionResource) everything {
	t.Helper()
	config.QPS, config.Burst = 40, 40 // about what kube-controller-manager has
	client, err := metadata.NewForConfig(config)
	require.NoError(t, err)
	informers := everything{metadatainformer.NewSharedInformerFactory(client, 0), resources}
	for _, resource := range resources {
		informers.ForResource(resource).Informer()
	}
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		informers.Shutdown()
	})
	informers.Start(stop)
	for resource, synced := range informers.WaitForCacheSync(t.Context().Done()) {
		require.True(t, synced, "the informer of %s does not know all objects", resource)
	}
	return informers
}

// see returns when the informers know an object of each resource.
func (e everything) see(t *testing.T, name string) {
	t.Helper()
	framework.Eventually(t, "all informers know "+name, func(context.Context) error {
		for _, resource := range e.resources {
			if _, err := e.ForResource(resource).Lister().Get(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// touchAll makes an object of each resource.
func touchAll(t *testing.T, config *rest.Config, resources []schema.GroupVersionResource) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	for _, resource := range resources {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(resource.GroupVersion().String())
		object.SetKind("Thing")
		object.SetName("touched")
		if _, err := client.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
