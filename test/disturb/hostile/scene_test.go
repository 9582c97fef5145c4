// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/hostile"
)

const (
	// memoryLimit is what search takes at most beside these lies, and goMemLimit 95 % of it. The chart gives a pod of both roles twice as much.
	memoryLimit = 512 << 20
	goMemLimit  = "GOMEMLIMIT=510027366"
	search      = "search-0"
	// copier is the replica that copies clusters where another one answers.
	copier = "search-1"
	// member is the honest cluster besides the hub, which search is part of.
	member = "member"
	hub    = "hub"
	reader = hostile.Reader
)

// scene is all that runs.
type scene struct {
	*framework.Fleet
	stock    *framework.Stock
	clusters dynamic.ResourceInterface
	// copier is the name of the replica that copies clusters.
	copier string
}

// limits make the work less for the machine: silence is over soon, and a flood is small.
var limits = []string{"--member-allow=loopback", "--member-timeout=5s", "--member-max-changes=100"}

// database starts PostgreSQL, and returns where an empty database is.
func database(t *testing.T) string {
	t.Helper()
	storetest.Need(t, "postgres")
	server, err := storetest.StartPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop() })
	_, err = server.Admin.Exec("CREATE DATABASE hostile")
	require.NoError(t, err)
	return server.URL("hostile")
}

// start starts Tripod with search, and a kube-apiserver that search copies.
func start(t *testing.T) *scene {
	t.Helper()
	env := framework.ForTest(t)
	s := &scene{copier: search}
	replicas := []framework.ReplicaOptions{
		{Name: "core-0", Args: []string{"--disable-admission-plugins=ServiceAccount"}}, {Name: "extensions-0"}, {Name: "aggregator-0"},
	}
	if *apart {
		s.copier = copier
		location := "--database=" + database(t)
		replicas = append(replicas,
			framework.ReplicaOptions{
				Name: search, Binary: env.Binary("tripod-search"), Env: []string{goMemLimit}, Args: []string{location, "--roles=serve"},
			},
			// It stands for a pod of its own: the processors of this machine are the other one's first.
			framework.ReplicaOptions{
				Name: copier, Binary: env.Binary("tripod-search"), Env: []string{goMemLimit}, Wrap: []string{"nice", "-n", "10"},
				Args: append(limits, location, "--roles=sync"),
			})
	} else {
		replicas = append(replicas, framework.ReplicaOptions{
			Name: search, Binary: env.Binary("tripod-search"), Env: []string{goMemLimit},
			Args: append(limits, "--database=sqlite:"+filepath.Join(env.Dir, "search.db")),
		})
	}
	var starting errgroup.Group
	starting.Go(func() (err error) {
		s.Fleet, err = env.StartFleet(t.Context(), framework.FleetOptions{Replicas: replicas})
		return err
	})
	starting.Go(func() (err error) {
		s.stock, err = env.StartStock(t.Context(), framework.StockOptions{Args: []string{"--disable-admission-plugins=ServiceAccount"}})
		return err
	})
	require.NoError(t, starting.Wait())
	t.Cleanup(func() { // kube-apiserver waits a minute for the watches of search
		for _, name := range slices.Compact([]string{search, s.copier}) {
			assert.NoError(t, s.Replica(name).Stop())
		}
	})
	for _, cluster := range []*framework.Cluster{s.Cluster, s.stock.Cluster} {
		require.NoError(t, cluster.Create(t.Context(), objects))
	}
	s.clusters = dynamic.NewForConfigOrDie(s.Admin()).Resource(schema.GroupVersionResource{Group: "cluster.clusterpedia.io", Version: "v1alpha2", Resource: "pediaclusters"})
	config, err := framework.PortableKubeconfig(s.stock.Admin())
	require.NoError(t, err)
	s.join(t, member, config)
	return s
}

// wanted is what search copies of each cluster.
var wanted = []any{
	map[string]any{"group": "", "resources": []any{"configmaps", "namespaces", "pods"}},
	map[string]any{"group": "example.com", "resources": []any{"*"}},
}

// everything is what search copies of clusters with odd resources.
var everything = append(slices.Clone(wanted), map[string]any{"group": "*", "resources": []any{"*"}})

// join has search copy a cluster.
func (s *scene) join(t *testing.T, name string, kubeconfig []byte) {
	t.Helper()
	resources := everything
	if name == member {
		resources = wanted
	}
	framework.Eventually(t, "search takes the cluster "+name, func(ctx context.Context) error {
		_, err := s.clusters.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.clusterpedia.io/v1alpha2", "kind": "PediaCluster", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString(kubeconfig), "memberRBAC": map[string]any{}, "syncResources": resources},
		}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return err
	})
}

// leave has search forget clusters, and returns when it has.
func (s *scene) leave(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, s.clusters.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	framework.Eventually(t, fmt.Sprint("search forgets the clusters ", names), func(ctx context.Context) error {
		text, err := get(ctx, s.Admin(), resources+"/clusters", "")
		for _, name := range names {
			if err == nil && strings.Contains(string(text), `"`+name+`"`) {
				err = fmt.Errorf("it knows %s", text)
			}
		}
		return err
	})
}

// complaint returns the errors in the status of a PediaCluster.
func complaint(cluster *unstructured.Unstructured) string {
	var all []string
	conditions, _, _ := unstructured.NestedSlice(cluster.Object, "status", "conditions")
	for _, c := range conditions {
		condition := c.(map[string]any) // by the schema
		kind, message := condition["type"], condition["message"]
		switch pending := condition["reason"] == "Pending" || message == "the cluster has not answered yet" || message == "nothing is copied yet"; {
		case pending || kind == "Ready":
		case kind == "Fresh" && condition["reason"] == "Incomplete": // the list is only not complete yet
		case kind == "SynchroRunning" && message != "", condition["status"] == "False":
			all = append(all, fmt.Sprint(kind, " ", condition["reason"], ": ", message))
		}
	}
	groups, _, _ := unstructured.NestedSlice(cluster.Object, "status", "syncResources")
	for _, g := range groups {
		found, _, _ := unstructured.NestedSlice(g.(map[string]any), "resources") // by the schema
		for _, r := range found {
			resource := r.(map[string]any) // by the schema
			states, _, _ := unstructured.NestedSlice(resource, "syncConditions")
			for _, c := range states {
				if state := c.(map[string]any); state["reason"] != nil && state["reason"] != "" { // by the schema
					all = append(all, fmt.Sprint(resource["name"], " ", state["reason"], ": ", state["message"]))
				}
			}
		}
	}
	return strings.Join(all, "; ")
}

// reportsOf returns all conditions and errors in the status of a PediaCluster, as hostile.Shows has them.
func reportsOf(cluster *unstructured.Unstructured) (all []string) {
	conditions, _, _ := unstructured.NestedSlice(cluster.Object, "status", "conditions")
	for _, c := range conditions {
		has := c.(map[string]any) // by the schema
		all = append(all, fmt.Sprintf("%v=%v %v: %v", has["type"], has["status"], has["reason"], has["message"]))
	}
	groups, _, _ := unstructured.NestedSlice(cluster.Object, "status", "syncResources")
	for _, g := range groups {
		found, _, _ := unstructured.NestedSlice(g.(map[string]any), "resources") // by the schema
		for _, r := range found {
			resource := r.(map[string]any) // by the schema
			states, _, _ := unstructured.NestedSlice(resource, "syncConditions")
			for _, c := range states {
				state := c.(map[string]any) // by the schema
				all = append(all, fmt.Sprintf("%v %v: %v", resource["name"], state["reason"], state["message"]))
			}
		}
	}
	return all
}

// as returns a configuration of the administrator who impersonates a user.
func (s *scene) as(name string) *rest.Config {
	config := s.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	return config
}

// objects are those of each honest cluster. The reader may list config maps of one namespace.
const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: team, labels: {app: web}}
data: {a: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: db, namespace: team, labels: {app: db}}
data: {a: c}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: default, labels: {app: web}}
data: {a: b}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: team}
spec: {containers: [{name: c, image: i}], automountServiceAccountToken: false}
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
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: team}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
`
