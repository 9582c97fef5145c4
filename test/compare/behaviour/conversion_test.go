// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestConversionWebhookConvertsBetweenVersions(t *testing.T) {
	t.Parallel()
	webhook := newConversionWebhook(t)
	crd := newWidgets()
	second := *crd.Spec.Versions[0].DeepCopy()
	second.Name, second.Storage = "v2", false
	crd.Spec.Versions = append(crd.Spec.Versions, second)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &webhook.URL, CABundle: webhook.caBundle()},
		},
	}
	v1 := resource{installCRD(t, cluster, crd), "Widget"}
	v2 := resource{v1.GroupResource().WithVersion("v2"), "Widget"}
	namespace := createNamespace(t)
	ctx := t.Context()

	create(t, v1.in(t, namespace), v1.object("a", "red"))
	read, err := v2.in(t, namespace).Get(ctx, "a", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, v2.GroupVersion().String(), read.GetAnnotations()["converted-to"], "read in v2, converted")
	if webhook.calls.Load() == 0 {
		t.Error("an object was converted without the webhook")
	}
	list, err := v2.in(t, namespace).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	if items := list.Items; len(items) != 1 || items[0].GetAPIVersion() != v2.GroupVersion().String() {
		t.Errorf("list in v2: %v", items)
	}
	create(t, v2.in(t, namespace), v2.object("b", "blue"))
	read, err = v1.in(t, namespace).Get(ctx, "b", metav1.GetOptions{})
	require.NoError(t, err)
	if got := color(read); got != "blue" || read.GetAPIVersion() != v1.GroupVersion().String() {
		t.Errorf("created in v2, read in v1: %v", read)
	}
}

// conversionWebhook answers by setting the apiVersion, and leaves a mark.
type conversionWebhook struct {
	*httptest.Server
	calls atomic.Int32
}

func newConversionWebhook(t testing.TB) *conversionWebhook {
	w := &conversionWebhook{}
	w.Server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		w.calls.Add(1)
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = convert(review.Request)
		review.Request = nil
		rw.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(rw).Encode(review))
	}))
	t.Cleanup(w.Close)
	return w
}

func convert(request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range request.Objects {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(raw.Raw); err != nil {
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			return response
		}
		object.SetAPIVersion(request.DesiredAPIVersion)
		object.SetAnnotations(map[string]string{"converted-to": request.DesiredAPIVersion})
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: &object})
	}
	return response
}

func (w *conversionWebhook) caBundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})
}
