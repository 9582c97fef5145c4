// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/test/framework"
)

// limits lets objects have as many labels as a Widget allows.
const limits = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  paramKind: {apiVersion: NAME.example.com/v1, kind: Widget}
  matchConstraints:
    resourceRules:
    - {apiGroups: ["", NAME.example.com], apiVersions: [v1], operations: [CREATE], resources: [configmaps, widgets]}
  validations:
  - expression: "size(object.metadata.labels) <= params.spec.max"
    messageExpression: "'at most ' + string(params.spec.max) + ' labels'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec:
  policyName: NAME
  validationActions: [Deny]
  paramRef: {name: limit, parameterNotFoundAction: Deny}
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}}
`

const (
	limit      = `{apiVersion: NAME.example.com/v1, kind: Widget, metadata: {name: limit, namespace: NAME, labels: {}}, spec: {max: 1}}`
	twoLabels  = `{apiVersion: v1, kind: ConfigMap, metadata: {labels: {a: a, b: b}}}`
	fourLabels = `{apiVersion: v1, kind: ConfigMap, metadata: {labels: {a: a, b: b, c: c, d: d}}}`
)

// setLimit changes the limit. The API may be away for a moment.
func (s *scene) setLimit(t *testing.T, limit int) {
	t.Helper()
	gvr := schema.GroupVersionResource{Group: s.name + ".example.com", Version: "v1", Resource: "widgets"}
	patch := fmt.Appendf(nil, `{"spec":{"max":%d}}`, limit)
	framework.Eventually(t, "the limit is changed", func(ctx context.Context) error {
		client, err := dynamic.NewForConfig(s.Admin())
		if err == nil {
			_, err = client.Resource(gvr).Namespace(s.name).Patch(ctx, "limit", types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return err
	})
}

func TestPolicyWithCustomResourcesAsParameters(t *testing.T) {
	t.Parallel()
	compare(t, func(t *testing.T, cluster *framework.Cluster) (seen []string) {
		s := newScene(t, cluster, "params")
		s.create(t, widgets)
		s.create(t, limit)
		s.create(t, limits)
		seen = append(seen, s.refused(t, s.Admin(), "at most 1 labels", twoLabels))
		widget := `{apiVersion: NAME.example.com/v1, kind: Widget, metadata: {labels: {a: a, b: b}}}`
		seen = append(seen, s.refused(t, s.Admin(), "at most 1 labels", widget))

		s.setLimit(t, 3)
		s.created(t, s.Admin(), twoLabels, nil)
		s.created(t, s.Admin(), widget, nil)
		return append(seen, s.refused(t, s.Admin(), "at most 3 labels", fourLabels))
	})
}

// merges sets what is within a list that has keys, which only a schema has.
const merges = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  reinvocationPolicy: Never
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [podtemplates]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: |
        Object{template: Object.template{spec: Object.template.spec{containers: [
          Object.template.spec.containers{name: "main", env: [Object.template.spec.containers.env{name: "A", value: "set"}]}]}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec:
  policyName: NAME
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME-custom}
spec:
  reinvocationPolicy: Never
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [NAME.example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: |
        Object{spec: Object.spec{parts: [Object.spec.parts{name: "wheel", color: "red"}]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME-custom}
spec:
  policyName: NAME-custom
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}}
`

func TestMutatingPolicyMergesBySchemas(t *testing.T) {
	t.Parallel()
	compare(t, func(t *testing.T, cluster *framework.Cluster) (seen []string) {
		s := newScene(t, cluster, "merges")
		s.create(t, widgets)
		s.create(t, merges)
		for _, object := range []struct {
			manifest string
			result   []string
			changed  string
		}{
			{`{apiVersion: v1, kind: PodTemplate, metadata: {}, template: {spec: {containers: [{name: side, image: i}, {name: main, image: i, env: [{name: B, value: kept}]}]}}}`,
				[]string{"template", "spec", "containers"}, "value: set"},
			{`{apiVersion: NAME.example.com/v1, kind: Widget, metadata: {}, spec: {max: 3, parts: [{name: door, size: 1}, {name: wheel, size: 4}]}}`,
				[]string{"spec", "parts"}, "color: red"},
		} {
			var result string
			s.created(t, s.Admin(), object.manifest, func(found *unstructured.Unstructured) error {
				list, _, err := unstructured.NestedSlice(found.Object, object.result...)
				if err != nil {
					return err
				}
				text, err := yaml.Marshal(list)
				if result = string(text); err == nil && !strings.Contains(result, object.changed) {
					err = fmt.Errorf("not changed yet:\n%s", result)
				}
				return err
			})
			seen = append(seen, result)
		}
		return seen
	})
}
