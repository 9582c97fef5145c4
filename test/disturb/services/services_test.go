// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// fleet is shared by the tests. The program of the additional services is that of extensions: it serves whatever CustomResourceDefinitions
// are in its own part of etcd, and reports them on its feed. Nothing of it is the extensions of this Tripod.
var fleet *framework.Fleet

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		service := func(name string, later bool, args ...string) framework.ReplicaOptions {
			of, _, _ := strings.Cut(name, "-")
			return framework.ReplicaOptions{
				Name: name, Binary: env.Binary("tripod-extensions"), Later: later,
				Args: append([]string{"--etcd-prefix=/services/" + of, "--disable-admission-plugins=ResourceQuota", "--authorization-mode=RBAC"}, args...),
			}
		}
		unstored, flunderFile = filepath.Join(env.Dir, "unstored"), filepath.Join(env.Dir, "flunders")
		streams = filepath.Join(env.Dir, "streams")
		fleet, err = env.StartFleet(ctx, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
			{Name: "core-0"}, {Name: "extensions-0"}, {Name: "aggregator-0"}, {Name: "aggregator-1"},
			{Name: "aggregator-2", Later: true, Args: []string{"--request-timeout=" + shortTimeout}},
			service("wardle-0", true), service("wardle-1", true),
			{Name: "unstored-0", Later: true, Binary: unstored, EtcdURL: "http://127.0.0.1:1", Args: []string{"--file=" + flunderFile}},
			{Name: "streams-0", Later: true, Binary: streams, EtcdURL: "http://127.0.0.1:1", Args: []string{"--request-timeout=" + shortTimeout}},
			service("mute-0", true, "--grpc-bind-address=127.0.0.1:0"), // no aggregator finds its feed
			service("never-0", true), // never starts
			service("false-0", true), // has the certificate of extensions
		}})
		if err != nil {
			return err
		}
		if err := fleet.Create(ctx, readsPolicy); err != nil {
			return err
		}
		return startAll(ctx, "wardle-0", "wardle-1")
	})
}

// readsPolicy lets these services read the policy of the cluster, because extensions authorizes requests itself.
const readsPolicy = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-policy}
rules:
- {apiGroups: [rbac.authorization.k8s.io], resources: ["*"], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-policy}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-policy}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:tripod:wardle"}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:tripod:mute"}
`

// startAll starts replicas, and returns when they are ready.
func startAll(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := fleet.Replica(name).Start(); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := fleet.Replica(name).WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// define creates a CustomResourceDefinition in the wardle service, and returns its resource.
func define(t *testing.T, group, version string) schema.GroupVersionResource {
	t.Helper()
	crd := strings.ReplaceAll(framework.CRD{Kind: "Flunder", Group: group, Schema: framework.Data}.String(), "name: v1", "name: "+version)
	objects, err := framework.Decode(crd)
	require.NoError(t, err)
	objects[0].SetAnnotations(map[string]string{"api-approved.kubernetes.io": "unapproved, testing"}) // for groups of Kubernetes
	require.NoError(t, framework.CreateObject(t.Context(), dynamicClient(t, fleet.As("wardle-0", framework.Master)), objects[0]))
	return schema.GroupVersionResource{Group: group, Version: version, Resource: "flunders"}
}

func dynamicClient(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return client
}

func flunder(of schema.GroupVersionResource, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": of.GroupVersion().String(), "kind": "Flunder", "metadata": map[string]any{"name": name}, "data": map[string]any{"a": "b"},
	}}
}

// awaitAPIService waits until the APIService of a resource is as it should be.
func awaitAPIService(t *testing.T, of schema.GroupVersionResource, what string, is func(*apiregistrationv1.APIService) bool) {
	t.Helper()
	client, err := clientset.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	framework.Eventually(t, "the APIService "+what, func(ctx context.Context) error {
		service, err := client.ApiregistrationV1().APIServices().Get(ctx, of.Version+"."+of.Group, metav1.GetOptions{})
		if err == nil && !is(service) {
			err = fmt.Errorf("it is %v, %v", service.Spec.Service, service.Status)
		}
		return err
	})
}

func isOf(service *apiregistrationv1.APIService, backend string, available bool) bool {
	ref := service.Spec.Service
	return ref != nil && ref.Namespace == "tripod-system" && ref.Name == backend && helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) == available
}

func awaitOwner(t *testing.T, of schema.GroupVersionResource, backend string) {
	t.Helper()
	awaitAPIService(t, of, "is of "+backend, func(service *apiregistrationv1.APIService) bool { return isOf(service, backend, true) })
}

func TestAServiceIsPartOfTheAPI(t *testing.T) {
	resource := define(t, "wardle.example.com", "v1")
	awaitOwner(t, resource, "wardle")
	namespace := framework.CreateNamespace(t, fleet.Cluster)
	for _, aggregator := range []string{"aggregator-0", "aggregator-1"} {
		cluster := fleet.Through(aggregator)
		client := traffic.NewClient(t, cluster.Admin(), 1)
		framework.Eventually(t, "discovery has the group", func(context.Context) error {
			return hasResource(cluster.Admin(), resource)
		})
		client.Await(t, "OpenAPI v3 has the group", "/openapi/v3/apis/wardle.example.com/v1", http.StatusOK)
		framework.Eventually(t, "OpenAPI v2 has the kind", func(ctx context.Context) error {
			answer, err := client.Send(ctx, http.MethodGet, "/openapi/v2", nil)
			if err == nil && !bytes.Contains(answer.Body, []byte("com.example.wardle.v1.Flunder")) {
				err = fmt.Errorf("it has not, with status %d", answer.Code)
			}
			return err
		})
		flunders := dynamicClient(t, cluster.Admin()).Resource(resource).Namespace(namespace)
		_, err := flunders.Create(t.Context(), flunder(resource, "of-"+aggregator), metav1.CreateOptions{})
		require.NoError(t, err)
	}

	t.Run("authorized there and nowhere else", func(t *testing.T) {
		config, err := fleet.UserConfig("jane")
		require.NoError(t, err)
		jane := dynamicClient(t, config).Resource(resource).Namespace(namespace)
		_, err = jane.List(t.Context(), metav1.ListOptions{})
		require.True(t, apierrors.IsForbidden(err), "error %v", err)
		admin, err := kubernetes.NewForConfig(fleet.Admin())
		require.NoError(t, err)
		_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "jane"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		framework.Eventually(t, "jane may list", func(ctx context.Context) error {
			_, err := jane.List(ctx, metav1.ListOptions{})
			return err
		})
		require.NoError(t, admin.RbacV1().RoleBindings(namespace).Delete(t.Context(), "jane", metav1.DeleteOptions{}))
		framework.Eventually(t, "jane may not list", func(ctx context.Context) error {
			if _, err := jane.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
				return fmt.Errorf("error %w", err)
			}
			return nil
		})
		asked, err := fleet.Metric(t.Context(), "core-0", "apiserver_request_total", "resource=subjectaccessreviews")
		require.NoError(t, err)
		assert.Zero(t, asked, "SubjectAccessReviews")
	})

	t.Run("its objects are its own", func(t *testing.T) {
		stored, err := framework.Stored(t.Context(), framework.Etcd(t, fleet.EtcdURL), "/services/wardle/wardle.example.com/flunders/"+namespace)
		require.NoError(t, err)
		assert.Len(t, stored, 2)
	})

	t.Run("operators ask for it by its name", func(t *testing.T) {
		client := traffic.NewClient(t, fleet.Admin(), 1)
		for path, want := range map[string]int{
			"/metrics?service=wardle": http.StatusOK, "/readyz?service=wardle": http.StatusOK, "/readyz/wardle-available": http.StatusOK,
			"/debug/api_priority_and_fairness/dump_priority_levels?service=wardle": http.StatusOK,
			"/readyz/never-available": http.StatusInternalServerError, "/metrics?service=search": http.StatusBadRequest,
		} {
			answer, err := client.Send(t.Context(), http.MethodGet, path, nil)
			require.NoError(t, err)
			assert.Equal(t, want, answer.Code, path)
			if want == http.StatusBadRequest {
				assert.Contains(t, string(answer.Body), "must be aggregator, core, extensions, false, mute, never, streams, unstored or wardle")
			}
		}
	})
}

// hasResource looks for a resource in discovery.
func hasResource(config *rest.Config, resource schema.GroupVersionResource) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		return err
	}
	for _, list := range lists {
		for _, found := range list.APIResources {
			if list.GroupVersion == resource.GroupVersion().String() && found.Name == resource.Resource {
				return nil
			}
		}
	}
	return fmt.Errorf("there is no %s", resource)
}

func TestAServiceDiesAndComesBack(t *testing.T) {
	resource := define(t, "dying.example.com", "v1")
	awaitOwner(t, resource, "wardle")
	client := traffic.NewClient(t, fleet.Admin(), 2)
	const path = "/apis/dying.example.com/v1/flunders"
	need := func(path string, want int) {
		t.Helper()
		answer, err := client.Send(t.Context(), http.MethodGet, path, nil)
		require.NoError(t, err)
		require.Equal(t, want, answer.Code, "%s: %s", path, answer.Body)
	}
	client.Await(t, "both replicas serve", path, http.StatusOK)

	require.NoError(t, fleet.Replica("wardle-1").Kill())
	for range 200 {
		need(path, http.StatusOK)
	}
	require.NoError(t, fleet.Replica("wardle-0").Kill())
	awaitAPIService(t, resource, "is not available", func(service *apiregistrationv1.APIService) bool {
		condition := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)
		return isOf(service, "wardle", false) && condition.Reason == "NoReplicaReady"
	})
	need(path, http.StatusServiceUnavailable)
	// The good requests of the service count at the service, so its outage must not count as errors of custom resources.
	answer, err := traffic.NewClient(t, fleet.Through("aggregator-0").Admin(), 1).Send(t.Context(), http.MethodGet, path, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	for metric, counts := range map[string]bool{"apiserver_request_terminations_total": true, "apiserver_request_total": false} {
		counted, err := fleet.Metric(t.Context(), "aggregator-0", metric, "group="+resource.Group)
		require.NoError(t, err)
		assert.Equal(t, counts, counted > 0, metric)
	}
	need("/readyz", http.StatusOK)
	need("/api/v1/namespaces", http.StatusOK)
	need("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", http.StatusOK)
	need("/openapi/v3", http.StatusOK)
	require.NoError(t, hasResource(fleet.Admin(), resource), "discovery forgets it")

	// An aggregator that starts meanwhile keeps its APIServices.
	late := fleet.Replica("aggregator-1")
	require.NoError(t, late.Stop())
	require.NoError(t, late.Start())
	require.NoError(t, late.WaitReady(t.Context()))
	awaitAPIService(t, resource, "stays", func(service *apiregistrationv1.APIService) bool { return isOf(service, "wardle", false) })
	other := traffic.NewClient(t, fleet.Through("aggregator-1").Admin(), 1)
	other.Await(t, "the other aggregator knows whose it is", path, http.StatusServiceUnavailable)

	for _, name := range []string{"wardle-0", "wardle-1"} {
		require.NoError(t, fleet.Replica(name).Start())
		require.NoError(t, fleet.Replica(name).WaitReady(t.Context()))
	}
	awaitOwner(t, resource, "wardle")
	client.Await(t, "it is back", path, http.StatusOK)
	other.Await(t, "it is back behind the other aggregator", path, http.StatusOK)
}

func TestTheFirstOfTwoServicesKeepsAGroupVersion(t *testing.T) {
	resource := define(t, "shared.example.com", "v1")
	awaitOwner(t, resource, "wardle")
	namespace := framework.CreateNamespace(t, fleet.Cluster)
	flunders := func(aggregator string) dynamic.ResourceInterface {
		return dynamicClient(t, fleet.Through(aggregator).Admin()).Resource(resource).Namespace(namespace)
	}
	_, err := flunders("aggregator-0").Create(t.Context(), flunder(resource, "one"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, fleet.Create(t.Context(), framework.CRD{Kind: "Flunder", Group: "shared.example.com", Schema: framework.Data}.String()))

	conflict := func(service *apiregistrationv1.APIService) string {
		if condition := helper.GetAPIServiceConditionByType(service, "Conflict"); condition != nil {
			return condition.Message
		}
		return ""
	}
	const message = "wardle serves shared.example.com/v1, which is also claimed by extensions; requests go to wardle"
	awaitAPIService(t, resource, "says who else claims it", func(service *apiregistrationv1.APIService) bool {
		return isOf(service, "wardle", true) && conflict(service) == message
	})
	awaitLog(t, "aggregator-0", "Two backends claim a group-version", `backend="wardle" other="extensions"`)

	late := fleet.Replica("aggregator-1")
	require.NoError(t, late.Stop())
	require.NoError(t, late.Start())
	require.NoError(t, late.WaitReady(t.Context()))
	for _, aggregator := range []string{"aggregator-0", "aggregator-1"} {
		_, err := flunders(aggregator).Get(t.Context(), "one", metav1.GetOptions{})
		require.NoError(t, err, "through %s", aggregator)
	}

	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	ofWardle := dynamicClient(t, fleet.As("wardle-0", framework.Master)).Resource(crds)
	require.NoError(t, ofWardle.Delete(t.Context(), "flunders.shared.example.com", metav1.DeleteOptions{}))
	awaitAPIService(t, resource, "is of extensions, without a conflict", func(service *apiregistrationv1.APIService) bool {
		return isOf(service, "extensions", true) && conflict(service) == ""
	})
	framework.Eventually(t, "requests go to extensions", func(ctx context.Context) error {
		if _, err := flunders("aggregator-0").Get(ctx, "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("error %w", err)
		}
		return nil
	})
}

func TestAServiceTakesNoGroupFromCore(t *testing.T) {
	const group = "rbac.authorization.k8s.io"
	define(t, group, "v9")
	awaitLog(t, "aggregator-0", "A backend claims a group that it cannot have", `backend="wardle" group="`+group+`"`)
	awaitOwner(t, define(t, "afterwards.example.com", "v1"), "wardle")
	client := traffic.NewClient(t, fleet.Admin(), 1)
	for path, want := range map[string]int{
		"/apis/apiregistration.k8s.io/v1/apiservices/v9." + group: http.StatusNotFound, "/apis/" + group + "/v9/flunders": http.StatusNotFound,
		"/openapi/v3/apis/" + group + "/v9": http.StatusNotFound, "/apis/" + group + "/v1/clusterroles": http.StatusOK,
	} {
		answer, err := client.Send(t.Context(), http.MethodGet, path, nil)
		require.NoError(t, err)
		assert.Equal(t, want, answer.Code, path)
	}
	answer, err := client.Send(t.Context(), http.MethodGet, "/apis/"+group, nil)
	require.NoError(t, err)
	var found metav1.APIGroup
	require.NoError(t, json.Unmarshal(answer.Body, &found))
	assert.Len(t, found.Versions, 1, "versions of the group")
}

func TestAServiceWithTheCertificateOfAnotherIsNotBelieved(t *testing.T) {
	for _, file := range []string{"crt", "key"} {
		content, err := os.ReadFile(filepath.Join(fleet.PKI, "extensions."+file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(fleet.PKI, "false."+file), content, 0o600))
	}
	require.NoError(t, fleet.Replica("false-0").Start())
	awaitLog(t, "aggregator-0", "feed of false", "extensions.tripod-system.svc", "not false.tripod-system.svc")
	client := traffic.NewClient(t, fleet.Admin(), 1)
	answer, err := client.Send(t.Context(), http.MethodGet, "/readyz/false-available", nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusInternalServerError, answer.Code)
}

// awaitLog waits for a line with all the texts in the log of a replica.
func awaitLog(t *testing.T, replica string, texts ...string) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("%s logs %q", replica, texts), func(context.Context) error {
		log, err := os.ReadFile(fleet.Replica(replica).Process().Log)
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(string(log), "\n") {
			has := true
			for _, text := range texts {
				has = has && strings.Contains(line, text)
			}
			if has {
				return nil
			}
		}
		return fmt.Errorf("there is no such line")
	})
}

func TestAServiceWithoutAFeedIsNamed(t *testing.T) {
	replica := fleet.Replica("mute-0")
	require.NoError(t, replica.Start())
	require.NoError(t, replica.WaitReady(t.Context()))
	client := traffic.NewClient(t, fleet.Admin(), 1)
	framework.Eventually(t, "the aggregator says what it lacks", func(ctx context.Context) error {
		answer, err := client.Send(ctx, http.MethodGet, "/readyz/mute-available", nil)
		if err == nil && !strings.Contains(string(answer.Body), "no replica has reported yet what it serves") {
			err = fmt.Errorf("%d %s", answer.Code, answer.Body)
		}
		return err
	})
	awaitLog(t, "aggregator-0", "No replica can be followed", "feed of mute")
	for path, want := range map[string]int{"/readyz": http.StatusOK, "/readyz/wardle-available": http.StatusOK, "/readyz/never-available": http.StatusInternalServerError} {
		answer, err := client.Send(t.Context(), http.MethodGet, path, nil)
		require.NoError(t, err)
		assert.Equal(t, want, answer.Code, path)
	}
	require.NoError(t, replica.Stop())
}
