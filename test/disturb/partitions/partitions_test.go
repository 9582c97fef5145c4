// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package partitions tests a Tripod whose extensions is divided into partitions by API group, each a process of its own.
package partitions

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	byDefault, wide, exact = "extensions", "extensions-wide", "extensions-exact"
	// namespace is where the objects are.
	namespace = "default"
)

// groups has an API group of each partition.
var groups = map[string]string{byDefault: "small.example.com", wide: "team.wide.example.com", exact: "exact.example.org"}

type instance struct {
	*framework.Tripod
	definitions apiextensions.Interface
	objects     dynamic.Interface
}

func start(t *testing.T) *instance {
	t.Helper()
	tripod, err := framework.ForTest(t).StartTripod(t.Context(), framework.TripodOptions{Args: []string{
		"--extensions-partition=wide=*.wide.example.com", "--extensions-partition=exact=exact.example.org",
	}})
	require.NoError(t, err)
	definitions, err := apiextensions.NewForConfig(tripod.Admin())
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(tripod.Admin())
	require.NoError(t, err)
	return &instance{tripod, definitions, objects}
}

// define creates a definition, and returns when it is established.
func (i *instance) define(t testing.TB, crd framework.CRD) dynamic.ResourceInterface {
	t.Helper()
	require.NoError(t, i.Create(t.Context(), crd.String()))
	plural := strings.ToLower(crd.Kind) + "s"
	i.until(t, plural+"."+crd.Group, apiextensionsv1.Established)
	return i.objects.Resource(schema.GroupVersionResource{Group: crd.Group, Version: "v1", Resource: plural}).Namespace(namespace)
}

func (i *instance) until(t testing.TB, name string, condition apiextensionsv1.CustomResourceDefinitionConditionType) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("%s is %s", name, condition), func(ctx context.Context) error {
		crd, err := i.definitions.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == condition && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", crd.Status.Conditions)
	})
}

func boat(group, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Boat", "metadata": map[string]any{"name": name, "namespace": namespace},
	}}
}

// get returns the answer to a GET.
func (i *instance) get(t testing.TB, path string) (string, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(i.Admin())
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, i.Admin().Host+path, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

func TestPartitionsServeTheirGroups(t *testing.T) {
	t.Parallel()
	i := start(t)
	boats := map[string]dynamic.ResourceInterface{}
	for partition, group := range groups {
		boats[partition] = i.define(t, framework.CRD{Kind: "Boat", Group: group})
	}
	for partition, group := range groups {
		created, err := boats[partition].Create(t.Context(), boat(group, "a"), metav1.CreateOptions{})
		require.NoError(t, err, partition)
		watching, err := boats[partition].Watch(t.Context(), metav1.ListOptions{ResourceVersion: created.GetResourceVersion()})
		require.NoError(t, err)
		_, err = boats[partition].Create(t.Context(), boat(group, "b"), metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "b", (<-watching.ResultChan()).Object.(*unstructured.Unstructured).GetName())
		watching.Stop()
		list, err := boats[partition].List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, list.Items, 2, partition)
	}

	require.NoError(t, i.Scale(t.Context(), wide, 2))
	require.NoError(t, i.Scale(t.Context(), wide, 1))
	t.Run("storages", func(t *testing.T) {
		for partition := range groups {
			metrics, err := i.get(t, "/metrics?service="+partition)
			require.NoError(t, err)
			assert.Contains(t, metrics, "\ntripod_custom_resource_storages 1\n", partition)
		}
	})
	t.Run("status", func(t *testing.T) {
		for partition, named := range map[string]string{byDefault: "apiserver", wide: wide, exact: exact} {
			status, err := i.get(t, "/statusz?service="+partition)
			require.NoError(t, err)
			assert.Contains(t, status, named+" statusz\n")
		}
	})
	t.Run("documents", func(t *testing.T) { i.expectDocuments(t) })
	t.Run("etcd", func(t *testing.T) { i.expectEtcd(t) })
	t.Run("a definition is deleted with its objects", func(t *testing.T) { i.expectFinalized(t, boats) })
}

// expectDocuments looks at all documents with the groups that exist, and the services that serve them.
func (i *instance) expectDocuments(t *testing.T) {
	services, err := aggregator.NewForConfig(i.Admin())
	require.NoError(t, err)
	client, err := discovery.NewDiscoveryClientForConfig(i.Admin())
	require.NoError(t, err)
	for partition, group := range groups {
		service, err := services.ApiregistrationV1().APIServices().Get(t.Context(), "v1."+group, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, partition, service.Spec.Service.Name, group)
		resources, err := client.ServerResourcesForGroupVersion(group + "/v1")
		require.NoError(t, err)
		assert.Len(t, resources.APIResources, 1, group)
		document, err := i.get(t, "/openapi/v3/apis/"+group+"/v1")
		require.NoError(t, err)
		assert.Contains(t, document, "/apis/"+group+"/v1/namespaces/{namespace}/boats", "OpenAPI v3")
	}
	_, all, err := client.ServerGroupsAndResources()
	require.NoError(t, err)
	found := map[string]bool{}
	for _, list := range all {
		found[list.GroupVersion] = true
	}
	v2, err := i.get(t, "/openapi/v2")
	require.NoError(t, err)
	for _, group := range groups {
		assert.True(t, found[group+"/v1"], "aggregated discovery lacks %s", group)
		assert.Contains(t, v2, "/apis/"+group+"/v1/namespaces/{namespace}/boats", "OpenAPI v2")
	}
	assert.True(t, found["apiextensions.k8s.io/v1"])
	differences, err := i.get(t, "/metrics?service=aggregator")
	require.NoError(t, err)
	assert.Contains(t, differences, `tripod_configuration_differences{between="replicas",kind="partitions"} 0`)
	assert.Contains(t, differences, `tripod_configuration_differences{between="services",kind="partitions"} 0`)
}

// expectEtcd tries what the etcd users of partitions may do.
func (i *instance) expectEtcd(t *testing.T) {
	server := regexp.MustCompile(`--etcd-servers=(\S+)`).FindStringSubmatch(i.command(t, exact))[1]
	pki := filepath.Join(i.DataDir, "pki")
	as := func(user string) *clientv3.Client {
		file := filepath.Join(pki, "etcd-api-service-"+user)
		if user == byDefault {
			file = filepath.Join(pki, "etcd-"+user)
		}
		client, err := access.Connect([]string{server}, filepath.Join(pki, "etcd-ca.crt"), file+".crt", file+".key")
		require.NoError(t, err)
		t.Cleanup(func() { client.Close() })
		return client
	}
	key := func(partition string) string { return "/registry/" + groups[partition] + "/boats/" + namespace + "/a" }
	const definition = "/registry/apiextensions.k8s.io/customresourcedefinitions/boats.exact.example.org"
	for user, rights := range map[string]map[string]bool{
		byDefault: {key(byDefault): true, key(exact): false},
		exact:     {key(byDefault): false, key(wide): false, key(exact): true, definition: false},
		wide:      {key(wide): true, key(exact): false, definition: false},
	} {
		for key, may := range rights {
			got, err := as(user).Get(t.Context(), key)
			if key != definition {
				assert.Equal(t, may, err == nil, "%s reads %s: %v", user, key, err)
			}
			if err == nil && may {
				_, err = as(user).Put(t.Context(), key, string(got.Kvs[0].Value))
			} else {
				_, err = as(user).Put(t.Context(), key, "")
			}
			assert.Equal(t, may, err == nil, "%s writes %s: %v", user, key, err)
		}
	}
}

// command returns the command line of the first replica of a service.
func (i *instance) command(t *testing.T, service string) string {
	t.Helper()
	status, err := i.Component(t.Context(), service)
	require.NoError(t, err)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", status.PID))
	require.NoError(t, err)
	return strings.ReplaceAll(string(line), "\x00", " ")
}

func (i *instance) expectFinalized(t *testing.T, boats map[string]dynamic.ResourceInterface) {
	for partition, group := range groups {
		name := "boats." + group
		crds := i.definitions.ApiextensionsV1().CustomResourceDefinitions()
		require.NoError(t, crds.Delete(t.Context(), name, metav1.DeleteOptions{}))
		framework.Eventually(t, name+" is gone", func(ctx context.Context) error {
			if _, err := crds.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("there it is, %w", err)
			}
			return nil
		})
		framework.Eventually(t, "boats of "+partition+" are gone", func(ctx context.Context) error {
			if _, err := boats[partition].List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the list of boats ends with %w", err)
			}
			return nil
		})
		// They are gone from etcd as well.
		boats[partition] = i.define(t, framework.CRD{Kind: "Boat", Group: group})
		list, err := boats[partition].List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Empty(t, list.Items, partition)
	}
}

func TestPartitionsFailAlone(t *testing.T) {
	t.Parallel()
	i := start(t)
	boats := map[string]dynamic.ResourceInterface{}
	for partition, group := range groups {
		boats[partition] = i.define(t, framework.CRD{Kind: "Boat", Group: group})
		_, err := boats[partition].Create(t.Context(), boat(group, "a"), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, stopped := range []string{exact, wide, byDefault} {
		t.Run(stopped, func(t *testing.T) {
			status, err := i.Component(t.Context(), stopped)
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(status.PID, syscall.SIGSTOP))
			defer syscall.Kill(status.PID, syscall.SIGCONT) //nolint:errcheck // it may have been restarted
			for partition := range groups {
				if partition != stopped {
					_, err := boats[partition].Get(t.Context(), "a", metav1.GetOptions{})
					require.NoError(t, err, "%s while %s is stopped", partition, stopped)
				}
			}
			// A partition starts without the others, and knows its definitions.
			for partition := range groups {
				if partition != stopped {
					require.NoError(t, i.Kill(t.Context(), partition))
					framework.Eventually(t, partition+" serves again", func(ctx context.Context) error {
						_, err := boats[partition].Get(ctx, "a", metav1.GetOptions{})
						if apierrors.IsNotFound(err) {
							t.Errorf("%s: %v", partition, err)
						}
						return err
					})
				}
			}
			require.NoError(t, syscall.Kill(status.PID, syscall.SIGCONT))
			require.NoError(t, i.WaitReady(t.Context()))
			_, err = boats[stopped].Get(t.Context(), "a", metav1.GetOptions{})
			require.NoError(t, err)
		})
	}
}

// TestAPartitionHasNoMemoryForOthers reads heap profiles.
func TestAPartitionHasNoMemoryForOthers(t *testing.T) {
	i := start(t)
	for partition, group := range groups {
		i.define(t, framework.CRD{Kind: "Boat", Group: group})
		_, err := i.get(t, "/openapi/v3/apis/"+group+"/v1")
		require.NoError(t, err, partition)
	}
	before := i.heaps(t)
	// 20 definitions of 40 KiB each.
	const large = 20
	var properties strings.Builder
	for n := range 200 {
		fmt.Fprintf(&properties, "field%d: {type: object, description: %q, properties: {a: {type: string}, b: {type: integer}}}, ", n, strings.Repeat("x", 120))
	}
	var defining errgroup.Group
	defining.SetLimit(4)
	for n := range large {
		defining.Go(func() error {
			return i.Create(t.Context(), framework.CRD{
				Kind: fmt.Sprintf("Large%d", n), Group: groups[wide], Schema: "{type: object, properties: {" + properties.String() + "}}",
			}.String())
		})
	}
	require.NoError(t, defining.Wait())
	for n := range large {
		i.until(t, fmt.Sprintf("large%ds.%s", n, groups[wide]), apiextensionsv1.Established)
	}
	_, err := i.get(t, "/openapi/v2")
	require.NoError(t, err)
	after := i.heaps(t)
	for partition := range groups {
		t.Logf("heap of %s: %d KiB before, %d KiB after", partition, before[partition]>>10, after[partition]>>10)
	}
	grown := after[wide] - before[wide]
	assert.Greater(t, grown, int64(20<<20), "the definitions are large")
	assert.Less(t, after[exact]-before[exact], grown/8, "a partition has memory for definitions of another one")
	// The default partition serves all definitions, which it has in a watch cache, and builds nothing from those of others.
	assert.Less(t, after[byDefault]-before[byDefault], grown*2/3, "the default partition builds documents of definitions of another one")
}

var heapAlloc = regexp.MustCompile(`# HeapAlloc = (\d+)`)

// heaps returns how many bytes are in use in each partition after garbage collection.
func (i *instance) heaps(t *testing.T) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	for partition := range groups {
		profile, err := i.get(t, "/debug/pprof/heap?gc=1&debug=1&service="+partition)
		require.NoError(t, err)
		match := heapAlloc.FindStringSubmatch(profile)
		require.NotNil(t, match, "the profile of %s", partition)
		found[partition], err = strconv.ParseInt(match[1], 10, 64)
		require.NoError(t, err)
	}
	return found
}
