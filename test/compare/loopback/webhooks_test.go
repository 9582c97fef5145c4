// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tripod-k8s/tripod/test/framework"
)

// reviewers are an API server of a third party, and a webhook that is there.
const reviewers = `
apiVersion: v1
kind: Service
metadata: {name: reviewers, namespace: NAME}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.NAME.reviewers.example.com}
spec:
  group: NAME.reviewers.example.com
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {namespace: NAME, name: reviewers, port: %s}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAME}
webhooks:
- name: reviews.NAME.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: default, name: kubernetes, path: /apis/NAME.reviewers.example.com/v1/reviews}}
  rules: [{apiGroups: ["", NAME.example.com], apiVersions: [v1], operations: [CREATE], resources: [configmaps, widgets]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}
`

// review denies everything, and names the client in its answer. It converts everything, and marks that in the object.
func review(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case req.Method != http.MethodPost:
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"x","resources":[]}`)
		return
	case strings.HasSuffix(req.URL.Path, "/conversions"):
		convert(w, req)
		return
	}
	var asked admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	groups := slices.Sorted(slices.Values(req.Header.Values("X-Remote-Group")))
	asked.Response = &admissionv1.AdmissionResponse{UID: asked.Request.UID, Result: &metav1.Status{
		Message: fmt.Sprintf("%s of %s asked by %s of %v for %s", req.URL.Path, asked.Request.UserInfo.Username,
			req.Header.Get("X-Remote-User"), groups, asked.Request.Kind),
	}}
	asked.Request = nil
	json.NewEncoder(w).Encode(asked) //nolint:errcheck // no client waits
}

func TestWebhooksAtTheKubernetesService(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(review))
	defer server.Close()
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	compare(t, func(t *testing.T, cluster *framework.Cluster) (seen []string) {
		s := newScene(t, cluster, "webhooks")
		s.create(t, widgets)
		s.create(t, strings.ReplaceAll(reviewers, "%s", address.Port()))
		for _, manifest := range []string{
			`{apiVersion: v1, kind: ConfigMap, metadata: {}}`,
			`{apiVersion: NAME.example.com/v1, kind: Widget, metadata: {}}`,
		} {
			seen = append(seen, s.refused(t, s.Admin(), "asked by", manifest))
		}
		return seen
	})
}

func convert(w http.ResponseWriter, req *http.Request) {
	var asked apiextensionsv1.ConversionReview
	if err := json.NewDecoder(req.Body).Decode(&asked); err != nil || asked.Request == nil {
		http.Error(w, fmt.Sprint("no review: ", err), http.StatusBadRequest)
		return
	}
	asked.Response = &apiextensionsv1.ConversionResponse{UID: asked.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range asked.Request.Objects {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		object.SetAPIVersion(asked.Request.DesiredAPIVersion)
		object.Object["spec"] = map[string]any{"converted": "for " + req.Header.Get("X-Remote-User")}
		asked.Response.ConvertedObjects = append(asked.Response.ConvertedObjects, runtime.RawExtension{Object: object})
	}
	asked.Request = nil
	json.NewEncoder(w).Encode(asked) //nolint:errcheck // no client waits
}

// converted is a kind whose versions a webhook at the kubernetes Service converts.
const converted = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: doors.NAME.example.com}
spec:
  group: NAME.example.com
  names: {plural: doors, kind: Door}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {namespace: default, name: kubernetes, path: /apis/NAME.reviewers.example.com/v1/conversions}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: &any {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
  - {name: v2, served: true, storage: false, schema: *any}
`

func TestConversionWebhooksAtTheKubernetesService(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(review))
	defer server.Close()
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	compare(t, func(t *testing.T, cluster *framework.Cluster) (seen []string) {
		s := newScene(t, cluster, "conversions")
		served, _, _ := strings.Cut(strings.ReplaceAll(reviewers, "%s", address.Port()), "---\napiVersion: admissionregistration")
		s.create(t, served)
		s.create(t, converted)
		door := s.created(t, s.Admin(), `{apiVersion: NAME.example.com/v2, kind: Door, metadata: {}, spec: {}}`, nil)
		return append(seen, fmt.Sprint(door.GetAPIVersion(), door.Object["spec"]))
	})
}
