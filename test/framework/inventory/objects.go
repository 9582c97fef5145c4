// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import "k8s.io/apimachinery/pkg/runtime/schema"

// Namespace is the namespace of Objects.
const Namespace = "takeover"

// Boats is the resource that Objects define.
var Boats = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "boats"}

// Objects are of many kinds. The ServiceAccount client may read ConfigMaps and boats. A policy rejects boats of 100 m and longer. IMAGE stands for
// the image of containers.
const Objects = `
apiVersion: v1
kind: Namespace
metadata: {name: takeover}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: client, namespace: takeover}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: client, namespace: takeover}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}
- {apiGroups: [example.com], resources: [boats], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: client, namespace: takeover}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: client}
subjects: [{kind: ServiceAccount, name: client, namespace: takeover}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: takeover, finalizers: [example.com/keep]}
data: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: takeover}
stringData: {password: open sesame}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: limits, namespace: takeover}
spec: {hard: {count/configmaps: "100", count/secrets: "100"}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: takeover}
spec:
  schedule: "0 3 1 1 *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: job, image: "IMAGE", args: [get, "http://server/"]}]}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat}
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {length: {type: integer}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
apiVersion: example.com/v1
kind: Boat
metadata: {name: dinghy, namespace: takeover}
spec: {length: 3}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: short-boats}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [boats]}]
  validations: [{expression: "object.spec.length < 100"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: short-boats}
spec: {policyName: short-boats, validationActions: [Deny]}
`
