// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"embed"
	"fmt"
)

// namespace is where the objects of the tests are.
const namespace = "compared"

const (
	crds           = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	coreNamespaced = "/api/v1/namespaces/" + namespace
	configMaps     = coreNamespaced + "/configmaps"
	pods           = coreNamespaced + "/pods"
	widgets        = "/apis/example.com/v1/namespaces/" + namespace + "/widgets"
	planets        = "/apis/space.example.com/v2beta1/planets"
	rbac           = "/apis/rbac.authorization.k8s.io/v1"
)

//go:embed testdata/*.yaml
var testdata embed.FS

func manifest(name string) string {
	data, err := testdata.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		panic(err)
	}
	return string(data)
}

const bootstrapTokenSecret = `
apiVersion: v1
kind: Secret
type: bootstrap.kubernetes.io/token
metadata: {name: bootstrap-token-abcdef}
stringData:
  token-id: abcdef
  token-secret: 0123456789abcdef
  usage-bootstrap-authentication: "true"
  auth-extra-groups: system:bootstrappers:test
`

func clusterRole(name, rules string) request {
	return post(rbac+"/clusterroles", fmt.Sprintf(
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":%s}`, name, rules))
}

func clusterRoleBinding(name, subjects string) request {
	return post(rbac+"/clusterrolebindings", fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1",
		"kind":"ClusterRoleBinding","metadata":{"name":%[1]q},"subjects":%[2]s,
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%[1]q}}`, name, subjects))
}

// fixtures makes what the other requests need. The answers are compared as well.
var fixtures = []request{
	post("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+namespace+`"}}`),
	post(coreNamespaced+"/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}`),
	post(coreNamespaced+"/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`).
		called("create the default ServiceAccount"),
	post("/api/v1/namespaces/kube-system/secrets", bootstrapTokenSecret),
	clusterRole("read-configmaps", `[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list","watch"]},
		{"apiGroups":["example.com"],"resources":["widgets"],"verbs":["get","list","watch"]}]`),
	clusterRoleBinding("read-configmaps", `[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"readers"},
		{"kind":"ServiceAccount","namespace":"`+namespace+`","name":"robot"}]`).called("bind read-configmaps"),
	clusterRole("impersonate-readers", `[{"apiGroups":[""],"resources":["users"],"resourceNames":["reader"],"verbs":["impersonate"]},
		{"apiGroups":[""],"resources":["groups"],"resourceNames":["readers"],"verbs":["impersonate"]}]`).
		called("create ClusterRole impersonate-readers"),
	clusterRoleBinding("impersonate-readers", `[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"impersonator"}]`).
		called("bind impersonate-readers"),
	post(crds, manifest("widgets")).called("create CRD widgets"),
	post(crds, manifest("planets")).called("create CRD planets"),
	post(crds, manifest("ghosts")).called("create CRD ghosts"),
	post(crds, manifest("gadgets")).called("create CRD gadgets"),
}
