// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// widgets is how many custom resources there are.
const widgets = 250

// encryptionConfig has secrets and widgets encrypted.
const encryptionConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, widgets.example.com]
  providers:
  - aescbc: {keys: [{name: key1, secret: bm90IGEgc2VjcmV0LCAzMiBieXRlcyBvZiBpdC4uLi4=}]}
  - identity: {}
`

// encrypted returns the flag that has secrets and widgets encrypted.
func encrypted(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	require.NoError(t, os.WriteFile(path, []byte(encryptionConfig), 0o600))
	return "--encryption-provider-config=" + path
}

// populate makes objects of many kinds.
func populate(t *testing.T, cluster *framework.Cluster) {
	t.Helper()
	manifests := strings.Builder{}
	manifests.WriteString(objects)
	for i := range widgets {
		fmt.Fprintf(&manifests, "---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget-%d, namespace: takeover}\nspec: {color: red, size: %d}\n", i, i)
	}
	require.NoError(t, cluster.Create(t.Context(), manifests.String()))
}

var objects = `apiVersion: v1
kind: Namespace
metadata: {name: takeover}
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
kind: ServiceAccount
metadata: {name: robot, namespace: takeover}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: takeover}
spec: {selector: {app: web}, ports: [{port: 80}], type: NodePort}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: takeover}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: takeover}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: job, image: job}]}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: takeover}
rules: [{apiGroups: [example.com], resources: [widgets], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot, namespace: takeover}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: robot, namespace: takeover}]
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: widgets, namespace: takeover}
spec: {hard: {count/widgets.example.com: "10000"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: colors}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [widgets]}]
  validations: [{expression: "object.spec.color != 'mauve'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: colors}
spec: {policyName: colors, validationActions: [Deny]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.metrics.example.com}
spec: {group: metrics.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: metrics, namespace: takeover}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
` + framework.CRD{Kind: "Planet", Group: "sub.example.com", ClusterScoped: true}.String() + `---
apiVersion: sub.example.com/v1
kind: Planet
metadata: {name: earth}
moons: 1
`
