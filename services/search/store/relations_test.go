// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// kindsOfShop are those of shop, by resource.
var kindsOfShop = map[string]streams.Kind{
	"pods": pods, "nodes": nodes, "replicasets": replicaSets, "deployments": deployments, "jobs": jobs,
	"services":                      shopKind("", "v1", "services", "Service", true),
	"configmaps":                    shopKind("", "v1", "configmaps", "ConfigMap", true),
	"secrets":                       shopKind("", "v1", "secrets", "Secret", true),
	"serviceaccounts":               shopKind("", "v1", "serviceaccounts", "ServiceAccount", true),
	"persistentvolumeclaims":        shopKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true),
	"persistentvolumes":             shopKind("", "v1", "persistentvolumes", "PersistentVolume", false),
	"storageclasses":                shopKind("storage.k8s.io", "v1", "storageclasses", "StorageClass", false),
	"ingresses":                     shopKind("networking.k8s.io", "v1", "ingresses", "Ingress", true),
	"networkpolicies":               shopKind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true),
	"poddisruptionbudgets":          shopKind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true),
	"horizontalpodautoscalers":      shopKind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true),
	"rolebindings":                  shopKind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true),
	"clusterrolebindings":           shopKind("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false),
	"roles":                         shopKind("rbac.authorization.k8s.io", "v1", "roles", "Role", true),
	"clusterroles":                  shopKind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false),
	"endpointslices":                shopKind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true),
	"apiservices":                   shopKind("apiregistration.k8s.io", "v1", "apiservices", "APIService", false),
	"mutatingwebhookconfigurations": shopKind("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false),
	"httproutes":                    shopKind("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute", true),
	"gateways":                      shopKind("gateway.networking.k8s.io", "v1", "gateways", "Gateway", true),
}

func shopKind(group, version, resource, kind string, namespaced bool) streams.Kind {
	return streams.Kind{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, Name: kind, Namespaced: namespaced}
}

// put writes an object. content is JSON without its metadata, and metadata more of that: labels and ownerReferences.
func put(t testing.TB, s *Store, cluster, resource, namespace, name, metadata, content string) {
	t.Helper()
	kind := kindsOfShop[resource]
	apiVersion, kindName := kind.GroupVersionKind().ToAPIVersionAndKind()
	text := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"name": %q, "uid": %q`, apiVersion, kindName, name, uidOf(resource, namespace, name))
	if namespace != "" {
		text += fmt.Sprintf(`, "namespace": %q`, namespace)
	}
	if metadata != "" {
		text += ", " + metadata
	}
	if text += "}"; content != "" {
		text += ", " + content
	}
	text += "}"
	var object struct {
		Metadata struct {
			Labels          map[string]string `json:"labels"`
			OwnerReferences []struct {
				UID string `json:"uid"`
			} `json:"ownerReferences"`
		} `json:"metadata"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &object), text)
	o := Object{Namespace: namespace, Name: name, UID: uidOf(resource, namespace, name), ResourceVersion: "1", CreatedAt: 1_700_000_000, Labels: object.Metadata.Labels, JSON: []byte(text)}
	for _, owner := range object.Metadata.OwnerReferences {
		o.Owners = append(o.Owners, owner.UID)
	}
	require.NoError(t, s.Write(t.Context(), openStream(t, s, cluster, kind), Batch{Changes: []Change{{Object: o}}}))
}

func uidOf(resource, namespace, name string) string {
	return "uid-" + resource + "-" + namespace + "-" + name
}

// ownedByOne is the metadata of something with an owner.
func ownedByOne(resource, namespace, name string) string {
	apiVersion, kind := kindsOfShop[resource].GroupVersionKind().ToAPIVersionAndKind()
	return fmt.Sprintf(`"ownerReferences": [{"apiVersion": %q, "kind": %q, "name": %q, "uid": %q}]`, apiVersion, kind, name, uidOf(resource, namespace, name))
}

// shop writes a Deployment with all that may belong to one.
func shop(t testing.TB, s *Store, cluster string) {
	t.Helper()
	put := func(resource, namespace, name, metadata, content string) {
		put(t, s, cluster, resource, namespace, name, metadata, content)
	}
	const template = `"volumes": [{"name": "a", "configMap": {"name": "settings"}}, {"name": "b", "secret": {"secretName": "key"}}, {"name": "c", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "d", "projected": {"sources": [{"configMap": {"name": "settings"}}]}}],
"containers": [{"name": "web", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "key", "key": "a"}}}], "envFrom": [{"configMapRef": {"name": "settings"}}]}], "imagePullSecrets": [{"name": "pull"}], "serviceAccountName": "web"`
	put("deployments", "shop", "web", "", `"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {`+template+`}}}`)
	put("replicasets", "shop", "web-1", ownedByOne("deployments", "shop", "web"), `"spec": {}`)
	for _, name := range []string{"web-1-a", "web-1-b"} {
		put("pods", "shop", name, `"labels": {"app": "web"}, `+ownedByOne("replicasets", "shop", "web-1"), `"spec": {"nodeName": "n", `+template+`}`)
	}
	put("pods", "shop", "other", `"labels": {"app": "db"}`, `"spec": {"nodeName": "m"}`)
	put("pods", "elsewhere", "web", `"labels": {"app": "web"}`, `"spec": {"serviceAccountName": "web", "volumes": [{"configMap": {"name": "settings"}}]}`)
	put("services", "shop", "web", "", `"spec": {"selector": {"app": "web"}}`)
	put("services", "shop", "headless", "", `"spec": {}`)
	put("networkpolicies", "shop", "all", "", `"spec": {"podSelector": {}}`)
	put("poddisruptionbudgets", "shop", "web", "", `"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}}`)
	put("configmaps", "shop", "settings", "", "")
	put("configmaps", "elsewhere", "settings", "", "")
	put("secrets", "shop", "key", "", "")
	put("secrets", "shop", "pull", "", "")
	put("secrets", "shop", "tls", "", "")
	put("serviceaccounts", "shop", "web", "", "")
	put("persistentvolumeclaims", "shop", "data", "", `"spec": {"volumeName": "disk", "storageClassName": "fast"}`)
	put("persistentvolumes", "", "disk", "", `"spec": {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data"}, "storageClassName": "fast"}`)
	put("storageclasses", "", "fast", "", "")
	put("nodes", "", "n", "", "")
	put("horizontalpodautoscalers", "shop", "web", "", `"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}`)
	put("ingresses", "shop", "front", "", `"spec": {"tls": [{"secretName": "tls"}], "rules": [{"http": {"paths": [{"backend": {"service": {"name": "web"}}}]}}]}`)
	put("endpointslices", "shop", "web-x", `"labels": {"kubernetes.io/service-name": "web"}`, `"endpoints": [{"targetRef": {"kind": "Pod", "namespace": "shop", "name": "web-1-a"}}]`)
	put("roles", "shop", "reader", "", "")
	put("clusterroles", "", "reader", "", "")
	put("rolebindings", "elsewhere", "web", "", `"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}, "subjects": [{"kind": "ServiceAccount", "namespace": "shop", "name": "web"}, {"kind": "User", "name": "web"}]`)
	put("rolebindings", "shop", "local", "", `"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}, "subjects": [{"kind": "ServiceAccount", "name": "web"}]`)
	put("apiservices", "", "v1.web", "", `"spec": {"service": {"namespace": "shop", "name": "web"}}`)
	put("mutatingwebhookconfigurations", "", "hook", "", `"webhooks": [{"clientConfig": {"service": {"namespace": "shop", "name": "web"}}}]`)
	put("gateways", "edge", "public", "", `"spec": {"listeners": [{"tls": {"certificateRefs": [{"name": "tls", "namespace": "shop"}]}}]}`)
	put("httproutes", "shop", "web", "", `"spec": {"parentRefs": [{"name": "public", "namespace": "edge"}], "rules": [{"backendRefs": [{"name": "web"}]}]}`)
}

// related returns "TYPE DIRECTION DISTANCE RESOURCE NAMESPACE/NAME" of what is related to an object.
func related(t testing.TB, s *Store, filter access.Filter, cluster, resource, namespace, name string, change ...func(*RelationsQuestion)) (texts []string, answer *Related) {
	t.Helper()
	q := &RelationsQuestion{Cluster: cluster, Resource: kindsOfShop[resource].GroupVersionResource, Namespace: namespace, Name: name, Depth: 3, Limit: 100, Related: filter}
	for _, c := range change {
		c(q)
	}
	answer, err := s.Relations(t.Context(), q)
	require.NoError(t, err)
	for _, r := range answer.Relations {
		texts = append(texts, described1(r))
	}
	slices.Sort(texts)
	return texts, answer
}

func described1(r v1beta1.Relation) string {
	return fmt.Sprintf("%s %s %d %s %s/%s", r.Type, r.Direction, r.Distance, r.Object.Resource, r.Object.Namespace, r.Object.Name)
}

func TestRelationsOfAnObject(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		shop(t, s, "east")
		shop(t, s, "west")
		for _, test := range []struct {
			resource, namespace, name string
			want                      []string
		}{
			{"pods", "shop", "web-1-a", []string{
				"Backend Incoming 1 endpointslices shop/web-x", "Environment Outgoing 1 configmaps shop/settings", "Environment Outgoing 1 secrets shop/key",
				"ImagePullSecret Outgoing 1 secrets shop/pull", "Node Outgoing 1 nodes /n", "Owner Outgoing 1 replicasets shop/web-1", "Owner Outgoing 2 deployments shop/web",
				"Selector Incoming 1 networkpolicies shop/all", "Selector Incoming 1 poddisruptionbudgets shop/web", "Selector Incoming 1 services shop/web",
				"ServiceAccount Outgoing 1 serviceaccounts shop/web", "Volume Outgoing 1 configmaps shop/settings", "Volume Outgoing 1 persistentvolumeclaims shop/data",
				"Volume Outgoing 1 secrets shop/key",
			}},
			{"deployments", "shop", "web", []string{
				"Environment Outgoing 1 configmaps shop/settings", "Environment Outgoing 1 secrets shop/key", "ImagePullSecret Outgoing 1 secrets shop/pull",
				"Owner Incoming 1 replicasets shop/web-1", "Owner Incoming 2 pods shop/web-1-a", "Owner Incoming 2 pods shop/web-1-b",
				"ScaleTarget Incoming 1 horizontalpodautoscalers shop/web", "ServiceAccount Outgoing 1 serviceaccounts shop/web", "Volume Outgoing 1 configmaps shop/settings",
				"Volume Outgoing 1 persistentvolumeclaims shop/data", "Volume Outgoing 1 secrets shop/key",
			}},
			{"services", "shop", "web", []string{
				"Backend Incoming 1 httproutes shop/web", "Backend Incoming 1 ingresses shop/front", "Selector Outgoing 1 pods shop/web-1-a", "Selector Outgoing 1 pods shop/web-1-b",
				"Service Incoming 1 apiservices /v1.web", "Service Incoming 1 endpointslices shop/web-x", "Service Incoming 1 mutatingwebhookconfigurations /hook",
			}},
			{"services", "shop", "headless", nil},
			{"networkpolicies", "shop", "all", []string{"Selector Outgoing 1 pods shop/other", "Selector Outgoing 1 pods shop/web-1-a", "Selector Outgoing 1 pods shop/web-1-b"}},
			{"poddisruptionbudgets", "shop", "web", []string{"Selector Outgoing 1 pods shop/web-1-a", "Selector Outgoing 1 pods shop/web-1-b"}},
			{"configmaps", "shop", "settings", []string{
				"Environment Incoming 1 deployments shop/web", "Environment Incoming 1 pods shop/web-1-a", "Environment Incoming 1 pods shop/web-1-b",
				"Volume Incoming 1 deployments shop/web", "Volume Incoming 1 pods shop/web-1-a", "Volume Incoming 1 pods shop/web-1-b",
			}},
			{"persistentvolumeclaims", "shop", "data", []string{
				"StorageClass Outgoing 1 storageclasses /fast", "Volume Incoming 1 deployments shop/web", "Volume Incoming 1 pods shop/web-1-a", "Volume Incoming 1 pods shop/web-1-b",
				"VolumeBinding Incoming 1 persistentvolumes /disk", "VolumeBinding Outgoing 1 persistentvolumes /disk",
			}},
			{"persistentvolumes", "", "disk", []string{
				"StorageClass Outgoing 1 storageclasses /fast", "VolumeBinding Incoming 1 persistentvolumeclaims shop/data", "VolumeBinding Outgoing 1 persistentvolumeclaims shop/data",
			}},
			{"storageclasses", "", "fast", []string{"StorageClass Incoming 1 persistentvolumeclaims shop/data", "StorageClass Incoming 1 persistentvolumes /disk"}},
			{"nodes", "", "n", []string{"Node Incoming 1 pods shop/web-1-a", "Node Incoming 1 pods shop/web-1-b"}},
			{"serviceaccounts", "shop", "web", []string{
				"ServiceAccount Incoming 1 deployments shop/web", "ServiceAccount Incoming 1 pods shop/web-1-a", "ServiceAccount Incoming 1 pods shop/web-1-b",
				"Subject Incoming 1 rolebindings elsewhere/web", "Subject Incoming 1 rolebindings shop/local",
			}},
			{"clusterroles", "", "reader", []string{"RoleRef Incoming 1 rolebindings elsewhere/web"}},
			{"roles", "shop", "reader", []string{"RoleRef Incoming 1 rolebindings shop/local"}},
			{"rolebindings", "elsewhere", "web", []string{"RoleRef Outgoing 1 clusterroles /reader", "Subject Outgoing 1 serviceaccounts shop/web"}},
			{"secrets", "shop", "tls", []string{"TLSSecret Incoming 1 gateways edge/public", "TLSSecret Incoming 1 ingresses shop/front"}},
			{"gateways", "edge", "public", []string{"Gateway Incoming 1 httproutes shop/web", "TLSSecret Outgoing 1 secrets shop/tls"}},
			{"horizontalpodautoscalers", "shop", "web", []string{"ScaleTarget Outgoing 1 deployments shop/web"}},
			{"endpointslices", "shop", "web-x", []string{"Backend Outgoing 1 pods shop/web-1-a", "Service Outgoing 1 services shop/web"}},
		} {
			got, answer := related(t, s, nil, "east", test.resource, test.namespace, test.name)
			assert.Equal(t, test.want, got, "%s %s/%s", test.resource, test.namespace, test.name)
			assert.False(t, answer.Incomplete)
			assert.Empty(t, answer.LeftOff)
			assert.Equal(t, uidOf(test.resource, test.namespace, test.name), answer.Subject.UID)
		}
		got, answer := related(t, s, nil, "east", "pods", "shop", "web-1-a", func(q *RelationsQuestion) {
			q.Types, q.Limit = []v1beta1.RelationType{v1beta1.RelationOwner, v1beta1.RelationVolume}, 2
		})
		assert.Equal(t, []string{"Owner Outgoing 1 replicasets shop/web-1", "Owner Outgoing 2 deployments shop/web"}, got)
		assert.Len(t, answer.LeftOff, 3)
		require.NotNil(t, answer.Relations[1].Via)
		assert.Equal(t, "web-1", answer.Relations[1].Via.Name)
		got, _ = related(t, s, nil, "east", "deployments", "shop", "web", func(q *RelationsQuestion) { q.Depth, q.Types = 1, []v1beta1.RelationType{v1beta1.RelationOwner} })
		assert.Equal(t, []string{"Owner Incoming 1 replicasets shop/web-1"}, got)
		_, err := s.Relations(t.Context(), &RelationsQuestion{Cluster: "east", Resource: pods.GroupVersionResource, Namespace: "shop", Name: "none", Depth: 1, Limit: 1})
		assert.ErrorIs(t, err, ErrNotFound)
	})
}

// TestRelationsAreBounded has a cluster with owners in circles, and with more objects than an answer counts.
func TestRelationsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		put(t, s, "east", "jobs", "shop", "a", ownedByOne("jobs", "shop", "b"), "")
		put(t, s, "east", "jobs", "shop", "b", ownedByOne("jobs", "shop", "a"), "")
		put(t, s, "east", "jobs", "shop", "self", ownedByOne("jobs", "shop", "self"), "")
		got, answer := related(t, s, nil, "east", "jobs", "shop", "a", func(q *RelationsQuestion) { q.Depth = 5 })
		assert.Equal(t, []string{"Owner Incoming 1 jobs shop/b", "Owner Outgoing 1 jobs shop/b"}, got)
		assert.False(t, answer.Incomplete)
		got, _ = related(t, s, nil, "east", "jobs", "shop", "self")
		assert.Empty(t, got)

		var batch Batch
		for i := range mostCounted + 10 {
			name := fmt.Sprintf("p-%04d", i)
			batch.Changes = append(batch.Changes, Change{Object: Object{
				Namespace: "shop", Name: name, UID: name, ResourceVersion: "1", Labels: map[string]string{"app": "web"}, Owners: []string{uidOf("jobs", "shop", "big")},
				JSON: fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "namespace": "shop", "uid": %q, "labels": {"app": "web"}}, "spec": {"serviceAccountName": "default"}}`, name, name),
			}})
		}
		require.NoError(t, s.Write(t.Context(), openStream(t, s, "east", pods), batch))
		put(t, s, "east", "services", "shop", "web", "", `"spec": {"selector": {"app": "web"}}`)
		put(t, s, "east", "jobs", "shop", "big", "", "")
		put(t, s, "east", "serviceaccounts", "shop", "default", "", "")

		_, answer = related(t, s, nil, "east", "services", "shop", "web", func(q *RelationsQuestion) { q.Limit = 7 })
		assert.Len(t, answer.Relations, 7)
		assert.Equal(t, []v1beta1.RelationsLeftOff{{Type: "Selector", Direction: "Outgoing", Resource: "pods", Count: mostCounted - 7, More: true}}, answer.LeftOff)
		assert.False(t, answer.Incomplete)
		for _, of := range []string{"jobs/big", "serviceaccounts/default"} {
			resource, name, _ := strings.Cut(of, "/")
			_, answer = related(t, s, nil, "east", resource, "shop", name)
			assert.Len(t, answer.Relations, 100, of)
			assert.True(t, answer.Incomplete, of)
			assert.Equal(t, int64(mostCounted-100), answer.LeftOff[0].Count, of)
		}

		limited := given{asOf: lastRights(t, s), parts: map[string]*access.ObjectSet{"east pods": access.NewObjectSet(nil, nil, [][2]string{{"shop", "p-0003"}, {"shop", "p-1005"}})}}
		got, answer = related(t, s, limited, "east", "serviceaccounts", "shop", "default")
		assert.Equal(t, []string{"ServiceAccount Incoming 1 pods shop/p-0003", "ServiceAccount Incoming 1 pods shop/p-1005"}, got)
		assert.False(t, answer.Incomplete, "what the reader may not list does not count")

		text := `"metadata": {}, "subjects": [` + strings.Repeat(`{"kind": "ServiceAccount", "name": "x"},`, 20_000) + `{"kind": "ServiceAccount", "name": "default"}]`
		put(t, s, "east", "rolebindings", "shop", "huge", "", text[len(`"metadata": {}, `):])
		_, answer = related(t, s, nil, "east", "rolebindings", "shop", "huge")
		assert.True(t, answer.Incomplete)
	})
}
