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
	"github.com/tripod-k8s/tripod/test/framework/inventory"
)

// boats is the number of custom resources.
const boats = 250

// encryptionConfig encrypts Secrets and boats.
const encryptionConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, boats.example.com]
  providers:
  - aescbc: {keys: [{name: key1, secret: bm90IGEgc2VjcmV0LCAzMiBieXRlcyBvZiBpdC4uLi4=}]}
  - identity: {}
`

// encrypted returns the flag that encrypts Secrets and boats.
func encrypted(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	require.NoError(t, os.WriteFile(path, []byte(encryptionConfig), 0o600))
	return "--encryption-provider-config=" + path
}

// populate creates objects of many kinds.
func populate(t *testing.T, cluster *framework.Cluster) {
	t.Helper()
	manifests := strings.Builder{}
	manifests.WriteString(objects)
	for i := range boats {
		fmt.Fprintf(&manifests, "---\napiVersion: example.com/v1\nkind: Boat\nmetadata: {name: boat-%d, namespace: takeover}\nspec: {length: %d}\n", i, i%100)
	}
	require.NoError(t, cluster.Create(t.Context(), manifests.String()))
}

var objects = inventory.Objects + `---
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
apiVersion: v1
kind: ResourceQuota
metadata: {name: boats, namespace: takeover}
spec: {hard: {count/boats.example.com: "10000"}}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.metrics.example.com}
spec: {group: metrics.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: metrics, namespace: takeover}}
---
` + framework.CRD{Kind: "Planet", Group: "sub.example.com", ClusterScoped: true}.String() + `---
apiVersion: sub.example.com/v1
kind: Planet
metadata: {name: earth}
moons: 1
`
