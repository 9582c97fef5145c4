// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import "fmt"

// Where objects are.
const (
	inNamespace = "/api/v1/namespaces/{ns}/"
	widgets     = "/apis/example.com/v1/namespaces/{ns}/widgets"
	licences    = "/apis/example.com/v1/namespaces/{ns}/licences"
	gadgets     = "/apis/example.com/v1/gadgets"
	rbacRoles   = "/apis/rbac.authorization.k8s.io/v1/"
	policies    = "/apis/admissionregistration.k8s.io/v1/"
)

// widget is the manifest of a widget; metadata and spec are YAML in braces.
func widget(metadata, spec string) string {
	return fmt.Sprintf("{apiVersion: example.com/v1, kind: Widget, metadata: %s, spec: %s}", metadata, spec)
}

// anyWidget has a name that the server makes, so that there can be many.
func anyWidget(spec string) string { return widget("{generateName: gen-}", spec) }

// probe is a widget that is made again and again until something is in force.
func probe(spec string) string { return widget("{generateName: settle-}", spec) }

func configMap(metadata, data string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: %s, data: %s}", metadata, data)
}

// allow lets a user do what rules grant in the namespace of the test.
func allow(user, name, rules string) []step {
	return []step{
		post(rbacRoles+"namespaces/{ns}/roles", fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %s}, rules: %s}", name, rules)),
		post(rbacRoles+"namespaces/{ns}/rolebindings", fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %s}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]}`, name, name, user)),
	}
}

// cluster lets a user do what rules grant everywhere.
func cluster(user, name, rules string) []step {
	return []step{
		post(rbacRoles+"clusterroles", fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "%s.{ns}"}, rules: %s}`, name, rules)),
		post(rbacRoles+"clusterrolebindings", fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: "%s.{ns}"},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "%s.{ns}"}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]}`, name, name, user)),
	}
}
