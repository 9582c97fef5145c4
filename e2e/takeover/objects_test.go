// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	namespace     = "takeover"
	workloadImage = "tripod-e2e/workload:dev"
	readyTimeout  = 2 * time.Minute
)

// live has workloads of all kinds that use the API, directly or not. The client pod requests the server pod by the name of its Service,
// over a new connection each time, and so depends on CoreDNS, kube-proxy and endpoints.
const live = `
apiVersion: v1
kind: Namespace
metadata: {name: takeover}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: takeover}
spec:
  replicas: 2
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: server, image: "IMAGE", args: [serve], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: takeover}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: client, namespace: takeover}
spec:
  serviceName: client
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      serviceAccountName: client
      terminationGracePeriodSeconds: 1
      containers:
      - {name: client, image: "IMAGE", args: [probe, "http://server.takeover.svc.cluster.local/"], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
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
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: server, namespace: takeover}
spec: {minAvailable: 1, selector: {matchLabels: {app: server}}}
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

// create creates the objects of a manifest. It waits for kinds that a CustomResourceDefinition of the manifest defines.
func (s *subject) create(t *testing.T, manifest string) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(strings.ReplaceAll(manifest, "IMAGE", workloadImage)), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		kind := object.GroupVersionKind()
		s.eventually(t, readyTimeout, fmt.Sprintf("create %s %s", kind.Kind, object.GetName()), func(ctx context.Context) error {
			mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if meta.IsNoMatchError(err) {
				s.mapper.Reset()
			}
			if err != nil {
				return err
			}
			_, err = s.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
}

var boats = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "boats"}

// waitForDeployment returns when a Deployment has all its pods ready, and its Service an endpoint for each.
func (s *subject) waitForDeployment(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	s.eventually(t, readyTimeout, "Deployment "+name+" is ready", func(ctx context.Context) error {
		deployment, err := s.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready := deployment.Status.ReadyReplicas; ready != replicas || deployment.Status.Replicas != replicas {
			return fmt.Errorf("%d of %d pods are ready, want %d", ready, deployment.Status.Replicas, replicas)
		}
		slices, err := s.Client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + name})
		if err != nil {
			return err
		}
		var endpoints int32
		for i := range slices.Items {
			endpoints += int32(len(slices.Items[i].Endpoints)) //nolint:gosec // a few
		}
		if endpoints != replicas {
			return fmt.Errorf("%d endpoints, want %d", endpoints, replicas)
		}
		return nil
	})
}

// waitForPod returns when a pod is ready.
func (s *subject) waitForPod(t *testing.T, name string) {
	t.Helper()
	s.eventually(t, readyTimeout, "pod "+name+" is ready", func(ctx context.Context) error {
		pod, err := s.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return podReady(pod)
	})
}
