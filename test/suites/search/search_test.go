// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

var (
	environment *framework.Environment
	fleet       *framework.Fleet
)

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		environment = env
		if err := flag.Set("test.parallel", "5"); err != nil { // these tests mostly wait
			return err
		}
		policy := filepath.Join(env.Dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(`{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}`), 0o600); err != nil {
			return err
		}
		search, database := env.Binary("tripod-search"), "--database=sqlite:"+filepath.Join(env.Dir, "search.db")
		fleet, err = env.StartFleet(ctx, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
			{Name: "core-0", Args: []string{"--disable-admission-plugins=ServiceAccount"}}, {Name: "extensions-0"}, {Name: "aggregator-0"},
			{Name: "search-0", Binary: search, Args: []string{database, "--member-allow=loopback", "--secret-namespace=platform", "--template-time=300ms", "--roles=sync,serve"}},
			{Name: "search-1", Binary: search, Args: []string{database, "--roles=serve", "--audit-policy-file=" + policy, "--audit-log-path=" + auditFile()}},
		}})
		if err == nil {
			err = fleet.Create(ctx, objects+"---"+platform)
		}
		return err
	})
}

// objects are a deployment with what its controllers would make, and a custom resource.
const objects = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {team: red}}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "example.com/nginx:1.25"}]}}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden, namespace: default}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  names: {kind: Boat, plural: boats, singular: boat, shortNames: [bt]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Length, type: integer, jsonPath: .spec.length}]
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// platform is a namespace with credentials of clusters, which search may read.
const platform = `
apiVersion: v1
kind: Namespace
metadata: {name: platform}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reads-credentials, namespace: platform}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: search-reads-credentials, namespace: platform}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads-credentials}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:tripod:search"}]
`

const (
	resources = "/apis/clusterpedia.io/v1beta1/resources"
	hub       = resources + "/clusters/hub"
)

// get returns the names in a list, with the namespace where there is one.
func get(ctx context.Context, config *rest.Config, path string) (names []string, err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	text, err := client.RESTClient().Get().RequestURI(path).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	for _, item := range list.Items {
		names = append(names, strings.TrimPrefix(item.Namespace+"/"+item.Name, "/"))
	}
	return names, nil
}

// rawGet returns what the administrator reads at a path.
func rawGet(ctx context.Context, path string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(fleet.Admin())
	if err != nil {
		return nil, err
	}
	return client.RESTClient().Get().RequestURI(path).DoRaw(ctx)
}

// awaitList returns when a list is as expected.
func awaitList(t *testing.T, path string, want ...string) {
	t.Helper()
	framework.Eventually(t, path, func(ctx context.Context) error {
		got, err := get(ctx, fleet.Admin(), path)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("got %q, want %q", got, want)
		}
		return err
	})
}

// create creates an object that another one owns.
func create(t *testing.T, kind, apiVersion, name, spec, ownerKind string, owner metav1.Object) metav1.Object {
	t.Helper()
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(`
apiVersion: %s
kind: %s
metadata:
  name: %s
  namespace: default
  ownerReferences: [{apiVersion: apps/v1, kind: %s, name: %s, uid: %s}]
spec: %s
`, apiVersion, kind, name, ownerKind, owner.GetName(), owner.GetUID(), spec)))
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	if kind == "Pod" {
		return nil
	}
	set, err := client.AppsV1().ReplicaSets("default").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return set
}

func TestTheClusterItselfIsSearched(t *testing.T) {
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	awaitList(t, resources+"/apis/apps/v1/deployments", "default/web")
	web, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	set := create(t, "ReplicaSet", "apps/v1", "web-1", `{selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}`, "Deployment", web)
	create(t, "Pod", "v1", "web-1-a", "{containers: [{name: c, image: i}]}", "ReplicaSet", set)
	require.NoError(t, fleet.Create(t.Context(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: default}}"))
	for query, want := range map[string][]string{
		"/api/v1/pods?ownerName=web&ownerGR=deployments.apps&ownerSeniority=1":                                                        {"default/web-1-a"},
		"/api/v1/pods?ownerName=web-1":                                                                                                {"default/web-1-a"},
		"/apis/apps/v1/replicasets?ownerUID=" + string(web.UID):                                                                       {"default/web-1"},
		"/apis/apps/v1/deployments?labelSelector=" + url.QueryEscape("team in (red),search.clusterpedia.io/fuzzy-name=eb"):            {"default/web"},
		"/apis/apps/v1/deployments?fieldSelector=" + url.QueryEscape("spec.template.spec.containers[].image=example.com/nginx:1.25"):  {"default/web"},
		"/apis/apps/v1/deployments?fieldSelector=" + url.QueryEscape("spec.template.spec.containers[].image!=example.com/nginx:1.25"): nil,
		"/api/v1/namespaces/default/configmaps?names=other":                                                                           {"default/other"},
	} {
		awaitList(t, resources+query, want...)
		awaitList(t, hub+query, want...)
	}
	_, err = get(t.Context(), fleet.Admin(), resources+"/api/v1/secrets")
	assert.True(t, apierrors.IsNotFound(err), "Secrets are not copied: %v", err)

	require.NoError(t, client.CoreV1().ConfigMaps("default").Delete(t.Context(), "other", metav1.DeleteOptions{}))
	awaitList(t, hub+"/api/v1/namespaces/default/configmaps?names=other")
}

func TestTypedClientsReadTheObjects(t *testing.T) {
	awaitList(t, resources+"/apis/apps/v1/deployments", "default/web")
	config := fleet.Admin()
	config.Host += hub
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	web, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "example.com/nginx:1.25", web.Spec.Template.Spec.Containers[0].Image)
	assert.Equal(t, "hub", web.Annotations["shadow.clusterpedia.io/cluster-name"])
	assert.Empty(t, web.ManagedFields)
	list, err := client.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	assert.Len(t, list.Items, 1)
	groups, err := client.Discovery().ServerPreferredResources()
	require.NoError(t, err)
	assert.NotEmpty(t, groups)
	watched, err := client.AppsV1().Deployments("").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watched.Stop()
	first := <-watched.ResultChan()
	assert.Equal(t, watch.Added, first.Type)
	require.IsType(t, web, first.Object)
	assert.Equal(t, web, first.Object, "a watch begins with what is there")
}

func TestTablesHaveTheColumnsOfTheCluster(t *testing.T) {
	t.Parallel()
	require.NoError(t, fleet.Create(t.Context(), "{apiVersion: example.com/v1, kind: Boat, metadata: {name: b, namespace: default}, spec: {length: 7}}"))
	awaitList(t, hub+"/apis/example.com/v1/boats", "default/b") // a resource that came later; other tests add clusters
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	for path, want := range map[string][]any{
		"/apis/example.com/v1/boats": {"hub", "b", "7"},
		"/apis/apps/v1/deployments":  {"hub", "web", "0/1"},
	} {
		text, err := client.RESTClient().Get().RequestURI(resources+path+"?clusters=hub").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
		require.NoError(t, err)
		var table metav1.Table
		require.NoError(t, json.Unmarshal(text, &table))
		var cells []any
		for _, cell := range table.Rows[0].Cells[:3] {
			cells = append(cells, fmt.Sprint(cell))
		}
		assert.Equal(t, want, cells)
	}
}

func TestWhoMaySearch(t *testing.T) {
	require.NoError(t, fleet.Create(t.Context(), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: searches-deployments}
rules: [{apiGroups: [clusterpedia.io], resources: [resources/deployments.apps], resourceNames: [hub], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: searches-deployments}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: searches-deployments}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: searches-everything}
rules: [{apiGroups: [clusterpedia.io], resources: [resources], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: searches-everything}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: searches-everything}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
`))
	const deployments, pods = "/apis/apps/v1/deployments", "/api/v1/pods"
	for user, allowed := range map[string]map[string]bool{
		"jane": {
			hub + deployments: true, resources + deployments + "?clusters=hub": true, resources + deployments: true, hub + pods: false,
			hub + "/apis/apps/v1/namespaces/default/deployments/web": false, resources + "/apis": true, "/apis/clusterpedia.io/v1beta1/collectionresources/any?groups=*": true,
		},
		"ann":    {hub + deployments: true, resources + deployments: true, hub + pods: true, hub + "/apis/apps/v1/namespaces/default/deployments/web": true},
		"nobody": {hub + deployments: false, resources + deployments: false, "/apis/clusterpedia.io/v1beta1/collectionresources/any?groups=*": false},
	} {
		config, err := fleet.UserConfig(user)
		require.NoError(t, err)
		for path, want := range allowed {
			framework.Eventually(t, user+" "+path, func(ctx context.Context) error {
				if _, err := get(ctx, config, path); (err == nil) != want || err != nil && !apierrors.IsForbidden(err) {
					return fmt.Errorf("allowed %t, error %w", want, err)
				}
				return nil
			})
		}
	}
	config, err := fleet.UserConfig("jane")
	require.NoError(t, err)
	config.Host += hub
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	assert.ErrorContains(t, err, `User "jane" cannot list resource "pods" in API group "" at the cluster scope: cluster hub: needs a role with verb list for resources or resources/pods of the group clusterpedia.io`)
}

func TestFieldsAreExplained(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]string{
		"deployments.spec.replicas": "FIELD: replicas <integer>",
		"boats":                     "KIND:       Boat",
	} {
		framework.Eventually(t, "kubectl explain "+resource, func(ctx context.Context) error {
			explain := exec.CommandContext(ctx, environment.Binary("tripod"), "kubectl", "--kubeconfig", fleet.Kubeconfig, "--server", fleet.URL+resources,
				"--cache-dir", t.TempDir(), "explain", resource)
			text, err := explain.CombinedOutput()
			if err == nil && !strings.Contains(string(text), want) {
				err = fmt.Errorf("it lacks %q", want)
			}
			if err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
			return nil
		})
	}
}

func TestSearchesAreAnsweredWhileTheReplicaThatCopiesIsAway(t *testing.T) {
	awaitList(t, resources+"/apis/apps/v1/deployments", "default/web")
	copies, answers := fleet.Replica("search-0"), fleet.Replica("search-1")
	require.NoError(t, copies.Stop())
	require.NoError(t, fleet.Create(t.Context(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: meanwhile, namespace: default}}"))
	awaitList(t, resources+"/apis/apps/v1/deployments", "default/web")
	awaitList(t, resources+"/api/v1/namespaces/default/configmaps?names=meanwhile")
	require.NoError(t, answers.Stop())
	client := traffic.NewClient(t, fleet.Admin(), 1)
	answer, err := client.Send(t.Context(), http.MethodGet, hub+"/apis/apps/v1/deployments", nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, answer.Code, "%s", answer.Body)
	for _, replica := range []*framework.Replica{answers, copies} {
		require.NoError(t, replica.Start())
		require.NoError(t, replica.WaitReady(t.Context()))
	}
	awaitList(t, resources+"/apis/apps/v1/deployments", "default/web")
	awaitList(t, resources+"/api/v1/namespaces/default/configmaps?names=meanwhile", "default/meanwhile")
}

func TestAnotherClusterIsSearched(t *testing.T) {
	t.Parallel()
	stock, err := environment.StartStock(t.Context(), framework.StockOptions{})
	require.NoError(t, err)
	require.NoError(t, stock.Create(t.Context(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: elsewhere, namespace: default}}"))
	wanted := map[string]any{"group": "", "resources": []any{"configmaps", "secrets"}, "eventsInvolvedResources": []any{"configmaps"}}
	addCluster(t, "another", kubeconfig(t, stock.Admin()), wanted)
	addCluster(t, "wrong", []byte("{"), wanted)
	for _, condition := range []string{v1alpha2.Validated, v1alpha2.ClusterHealthy, v1alpha2.SynchroRunning, v1alpha2.Ready} {
		awaitCondition(t, "another", condition, metav1.ConditionTrue, "")
		awaitCondition(t, "wrong", condition, metav1.ConditionFalse, "")
	}

	const inAnother = resources + "/clusters/another"
	awaitList(t, inAnother+"/api/v1/namespaces/default/configmaps?names=elsewhere", "default/elsewhere")
	awaitList(t, resources+"/api/v1/configmaps?names=elsewhere", "default/elsewhere")
	awaitList(t, hub+"/api/v1/configmaps?names=elsewhere")
	require.NoError(t, stock.Create(t.Context(), `
apiVersion: v1
kind: Event
metadata: {name: about-elsewhere, namespace: default}
involvedObject: {apiVersion: v1, kind: ConfigMap, namespace: default, name: elsewhere}
reason: Seen
lastTimestamp: `+time.Now().UTC().Format(time.RFC3339)))
	framework.Eventually(t, "the event comes with its object", func(ctx context.Context) error {
		text, err := rawGet(ctx, inAnother+"/api/v1/namespaces/default/configmaps?names=elsewhere&injectEvents=true")
		if err == nil && !strings.Contains(string(text), "about-elsewhere") {
			err = fmt.Errorf("got %s", text)
		}
		return err
	})
	_, err = get(t.Context(), fleet.Admin(), inAnother+"/apis/apps/v1/deployments")
	assert.True(t, apierrors.IsNotFound(err), "it is not to be copied: %v", err)
	_, err = get(t.Context(), fleet.Admin(), inAnother+"/api/v1/secrets")
	assert.NoError(t, err, "Secrets are copied if they are named")
	require.NoError(t, stock.Create(t.Context(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: later, namespace: default}}"))
	awaitList(t, inAnother+"/api/v1/namespaces/default/configmaps?names=later", "default/later")

	patchCluster(t, "another", `{"spec": {"syncResources": [{"group": "", "resources": ["namespaces"]}]}}`)
	framework.Eventually(t, "other resources are copied", func(ctx context.Context) error {
		names, err := get(ctx, fleet.Admin(), inAnother+"/api/v1/namespaces?names=default")
		if err == nil && len(names) != 1 {
			err = fmt.Errorf("got %q", names)
		}
		if _, still := get(ctx, fleet.Admin(), inAnother+"/api/v1/configmaps"); err == nil && !apierrors.IsNotFound(still) {
			err = fmt.Errorf("config maps are still there: %w", still)
		}
		return err
	})
	removeClusters(t, "another", "wrong")
}
