// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import "github.com/tripod-k8s/tripod/test/framework"

// auditPolicy has everything written that can be.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: RequestResponse
`

// fixtures are what requests need. A policy has an annotation about objects that are called noted, for the audit log
// as well.
var fixtures = `
apiVersion: v1
kind: Namespace
metadata: {name: test, labels: {pod-security.kubernetes.io/warn: restricted, pod-security.kubernetes.io/audit: restricted}}
---
` + framework.CRD{
	Kind: "Widget", Subresources: "{status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}",
	Schema: "{type: object, properties: {data: {type: object, additionalProperties: {type: string}}, " +
		"spec: {type: object, properties: {replicas: {type: integer, maximum: 9}}}, status: {type: object, properties: {replicas: {type: integer}}}}}",
	MoreVersions: []string{"{name: v1alpha1, served: true, storage: false, deprecated: true, schema: {openAPIV3Schema: " + framework.Any + "}}"},
}.String() + `---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: test}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: test}
spec: {nodeName: node-1, serviceAccountName: robot, automountServiceAccountToken: false, containers: [{name: main, image: none}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: ["", example.com, apiregistration.k8s.io], resources: [configmaps, widgets, apiservices], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects:
- {kind: ServiceAccount, namespace: test, name: robot}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: actor}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:nodes}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: director}
rules:
- {apiGroups: [""], resources: [users, groups, serviceaccounts], verbs: [impersonate]}
- {apiGroups: [authentication.k8s.io], resources: [uids, userextras/scene], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: director}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: director}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: director}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: constrained}
rules:
- {apiGroups: [authentication.k8s.io], resources: [users], resourceNames: [actor], verbs: ["impersonate:user-info"]}
- {apiGroups: [authentication.k8s.io], resources: [groups], resourceNames: [stage], verbs: ["impersonate:user-info"]}
- {apiGroups: [authentication.k8s.io], resources: [serviceaccounts], resourceNames: [robot], verbs: ["impersonate:serviceaccount"]}
- {apiGroups: [authentication.k8s.io], resources: [nodes], resourceNames: [node-1], verbs: ["impersonate:arbitrary-node"]}
- apiGroups: ["", example.com, apiregistration.k8s.io]
  resources: [configmaps, widgets, apiservices]
  verbs: ["impersonate-on:user-info:list", "impersonate-on:serviceaccount:list", "impersonate-on:arbitrary-node:list"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: constrained}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: constrained}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: constrained}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules:
- {apiGroups: [authentication.k8s.io], resources: [nodes], verbs: ["impersonate:associated-node"]}
- {apiGroups: ["", example.com], resources: [configmaps, widgets], verbs: ["impersonate-on:associated-node:list"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent}
subjects: [{kind: ServiceAccount, namespace: test, name: robot}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: noted}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: ["", example.com], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [configmaps, widgets]}
  matchConditions:
  - {name: asked, expression: "request.name in ['noted', 'polled']"}
  validations: [{expression: "false", message: noted}]
  auditAnnotations: [{key: by, valueExpression: request.userInfo.username}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: noted}
spec: {policyName: noted, validationActions: [Warn, Audit]}
`
