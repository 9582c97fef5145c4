// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import "github.com/tripod-k8s/tripod/test/framework"

// staticTokens is a file of tokens: token, user, UID, groups.
const staticTokens = `static-token-1,steve,uid-of-steve,"readers,writers"
static-token-2,"eve, with a comma",,
`

const (
	bootstrapID     = "abcdef"
	bootstrapSecret = "0123456789abcdef"
)

// Paths of objects that are served by core, by extensions, and by the aggregator itself.
const (
	configMapsPath  = "/api/v1/namespaces/test/configmaps"
	widgetsPath     = "/apis/example.com/v1/namespaces/test/widgets"
	apiServicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"
)

// fixtures are objects that all tests may rely on. The policy refuses ConfigMaps and Widgets that are called who, and
// answers with the user that admission sees.
var fixtures = `
apiVersion: v1
kind: Namespace
metadata: {name: test}
---
` + framework.CRD{Kind: "Widget"}.String() + `---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: test}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: doomed, namespace: test}
---
apiVersion: v1
kind: Secret
metadata: {name: bound, namespace: test}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: test}
spec:
  nodeName: node-1
  serviceAccountName: robot
  containers: [{name: main, image: none}]
---
apiVersion: v1
kind: Secret
type: bootstrap.kubernetes.io/token
metadata: {name: bootstrap-token-` + bootstrapID + `, namespace: kube-system}
stringData:
  token-id: ` + bootstrapID + `
  token-secret: ` + bootstrapSecret + `
  usage-bootstrap-authentication: "true"
  auth-extra-groups: system:bootstrappers:test
---
apiVersion: v1
kind: Secret
type: bootstrap.kubernetes.io/token
metadata: {name: bootstrap-token-expire, namespace: kube-system}
stringData:
  token-id: expire
  token-secret: ` + bootstrapSecret + `
  usage-bootstrap-authentication: "true"
  expiration: "2020-01-01T00:00:00Z"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: creator, namespace: test}
rules:
- {apiGroups: ["", example.com], resources: [configmaps, widgets], verbs: [create, get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everybody, namespace: test}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: creator}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:authenticated}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: who}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: ["", example.com], apiVersions: ["*"], operations: [CREATE], resources: [configmaps, widgets]}
  matchConditions:
  - {name: asked, expression: request.name == 'who'}
  validations:
  - expression: "false"
    messageExpression: >-
      'name ' + request.userInfo.username
      + '; uid ' + (has(request.userInfo.uid) ? request.userInfo.uid : '')
      + '; groups ' + (has(request.userInfo.groups) ? request.userInfo.groups.join(',') : '')
      + '; extra ' + (has(request.userInfo.extra) ? request.userInfo.extra.map(key,
          '<' + key + '>' + request.userInfo.extra[key].map(value, '[' + value + ']').join('')).join(' ') : '')
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: who}
spec: {policyName: who, validationActions: [Deny]}
`
