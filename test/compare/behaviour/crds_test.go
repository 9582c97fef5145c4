// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/test/framework"
)

func TestCustomResourcesAreUsableAsSoonAsTheirDefinitionIsEstablished(t *testing.T) {
	t.Parallel()
	namespace := createNamespace(t)
	for i := range 5 {
		r := resource{installCRD(t, cluster, newWidgets()), "Widget"}
		client := r.in(t, namespace)
		create(t, client, r.object("a", "red"))
		read, err := client.Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "red", color(read), "CRD %d: read", i)
	}
}

func TestEstablishedDefinitionsGetIntoDiscoveryAndOpenAPIAndOutAgain(t *testing.T) {
	t.Parallel()
	crd := newWidgets()
	gvr := installCRD(t, cluster, crd)
	framework.Eventually(t, "everything shows the CRD", func(ctx context.Context) error {
		return shown(ctx, gvr, true)
	})
	client, err := apiextensions.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	if err := client.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "nothing shows the CRD any more", func(ctx context.Context) error {
		return shown(ctx, gvr, false)
	})
	r := resource{gvr, "Widget"}
	if resp := get(t, cluster.Admin(), r.path("default")); resp.Code != http.StatusNotFound {
		t.Errorf("the path of a deleted CRD answers %d: %s", resp.Code, resp.Body)
	}
}

// shown compares wherever a custom resource is shown with the expected one.
func shown(ctx context.Context, gvr schema.GroupVersionResource, want bool) error {
	if err := hasAPIService(ctx, gvr.GroupVersion(), want); err != nil {
		return err
	}
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	groupVersion := gvr.GroupVersion().String()
	for _, place := range []struct{ path, accept, text string }{
		{"/apis", aggregated, fmt.Sprintf("%q", gvr.Group)},
		{"/apis", "application/json", fmt.Sprintf("%q", groupVersion)},
		{"/apis/" + gvr.Group, "application/json", fmt.Sprintf("%q", groupVersion)},
		{"/apis/" + groupVersion, "application/json", fmt.Sprintf("%q", gvr.Resource)},
		{"/openapi/v3", "application/json", "/openapi/v3/apis/" + groupVersion + "?hash="},
		{"/openapi/v3/apis/" + groupVersion, "application/json", "namespaces/{namespace}/" + gvr.Resource},
		{"/openapi/v2", "application/json", "/apis/" + groupVersion + "/namespaces/{namespace}/" + gvr.Resource},
	} {
		resp, err := send(ctx, cluster.Admin(), http.MethodGet, place.path, map[string][]string{"Accept": {place.accept}}, nil)
		if err != nil {
			return err
		}
		if got := resp.Code == http.StatusOK && strings.Contains(string(resp.Body), place.text); got != want {
			return fmt.Errorf("%s (%s) has %s: %v, status %d", place.path, place.accept, place.text, got, resp.Code)
		}
		if !want && resp.Code != http.StatusOK && resp.Code != http.StatusNotFound {
			return fmt.Errorf("%s answers %d: %s", place.path, resp.Code, resp.Body)
		}
	}
	return nil
}

func hasAPIService(ctx context.Context, gv schema.GroupVersion, want bool) error {
	client, err := aggregator.NewForConfig(cluster.Admin())
	if err != nil {
		return err
	}
	service, err := client.ApiregistrationV1().APIServices().Get(ctx, gv.Version+"."+gv.Group, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !want:
		return nil
	case err != nil:
		return err
	case !want:
		return errors.New("the APIService is still there")
	case service.Labels["kube-aggregator.kubernetes.io/automanaged"] != "true":
		return fmt.Errorf("labels of the APIService: %v", service.Labels)
	case service.Spec.GroupPriorityMinimum != 1000 || service.Spec.VersionPriority != 100:
		return fmt.Errorf("priorities of the APIService: %d, %d", service.Spec.GroupPriorityMinimum, service.Spec.VersionPriority)
	case len(service.Status.Conditions) != 1 || service.Status.Conditions[0].Status != "True":
		return fmt.Errorf("conditions of the APIService: %v", service.Status.Conditions)
	}
	return nil
}

func TestStatusIsWrittenOnlyThroughItsSubresource(t *testing.T) {
	t.Parallel()
	crd := newWidgets()
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	r := resource{installCRD(t, cluster, crd), "Widget"}
	ctx, client := t.Context(), r.in(t, createNamespace(t))
	object := sized(r.object("a", "red"), 3)
	object.Object["status"] = map[string]any{"size": int64(9)}
	created := create(t, client, object)
	if _, found := created.Object["status"]; found {
		t.Errorf("create wrote the status: %v", created.Object)
	}
	created.Object["status"] = map[string]any{"size": int64(3)}
	created.Object["spec"] = map[string]any{"size": int64(4)}
	updated, err := client.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	require.NoError(t, err)
	if got := size(updated, "status"); got != 3 {
		t.Errorf("status.size is %d", got)
	}
	if got := size(updated, "spec"); got != 3 {
		t.Errorf("an update of the status set spec.size to %d", got)
	}
	if updated.GetGeneration() != 1 {
		t.Errorf("an update of the status made generation %d", updated.GetGeneration())
	}
}

func TestScaleSubresourceReadsAndWritesTheReplicas(t *testing.T) {
	t.Parallel()
	crd := newWidgets()
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
		Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size"},
	}
	r := resource{installCRD(t, cluster, crd), "Widget"}
	ctx, client := t.Context(), r.in(t, createNamespace(t))
	create(t, client, sized(r.object("a", "red"), 3))
	scale, err := client.Get(ctx, "a", metav1.GetOptions{}, "scale")
	require.NoError(t, err)
	if scale.GetKind() != "Scale" || scale.GetAPIVersion() != "autoscaling/v1" {
		t.Errorf("got %v", scale)
	}
	_, err = client.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{}, "scale")
	require.NoError(t, err)
	read, err := client.Get(ctx, "a", metav1.GetOptions{})
	require.NoError(t, err)
	if got := size(read, "spec"); got != 7 {
		t.Errorf("spec.size is %d after scaling to 7", got)
	}
}

func TestCELRulesAndDefaultsOfTheSchemaApply(t *testing.T) {
	t.Parallel()
	crd := newWidgets()
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Default = &apiextensionsv1.JSON{Raw: []byte(`{"size":5}`)}
	spec.XValidations = apiextensionsv1.ValidationRules{
		{Rule: "self.size <= 10", Message: "too big"},
		{Rule: "self.size >= oldSelf.size", Message: "widgets do not shrink"},
	}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec

	r := resource{installCRD(t, cluster, crd), "Widget"}
	ctx, client := t.Context(), r.in(t, createNamespace(t))
	created := create(t, client, r.object("a", "red"))
	if got := size(created, "spec"); got != 5 {
		t.Errorf("default of spec.size: %d", got)
	}
	_, err := client.Create(ctx, sized(r.object("b", "red"), 11), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "too big") {
		t.Errorf("creating a widget that is too big: %v", err)
	}
	_, err = client.Update(ctx, sized(created, 4), metav1.UpdateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "widgets do not shrink") {
		t.Errorf("shrinking a widget: %v", err)
	}
}

func TestUnknownFieldsArePrunedUnlessTheSchemaKeepsThem(t *testing.T) {
	t.Parallel()
	crd := newWidgets()
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["free"] = apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: ptr.To(true),
	}
	r := resource{installCRD(t, cluster, crd), "Widget"}
	object := r.object("a", "red")
	object.Object["free"] = map[string]any{"anything": "goes"}
	object.Object["bogus"] = "x"
	created := create(t, r.in(t, createNamespace(t)), object)
	if _, found := created.Object["bogus"]; found {
		t.Error("an unknown field was kept")
	}
	if value, _, _ := unstructured.NestedString(created.Object, "free", "anything"); value != "goes" {
		t.Error("a field was pruned where the schema keeps them")
	}
}

func TestVersionsAppearAndVanishAsTheyAreServed(t *testing.T) {
	t.Parallel()
	crd := newWidgets()
	second := *crd.Spec.Versions[0].DeepCopy()
	second.Name, second.Storage, second.Served = "v2", false, false
	crd.Spec.Versions = append(crd.Spec.Versions, second)
	v1 := resource{installCRD(t, cluster, crd), "Widget"}
	v2 := resource{v1.GroupResource().WithVersion("v2"), "Widget"}
	namespace := createNamespace(t)
	create(t, v1.in(t, namespace), v1.object("a", "red"))

	setServed := func(served string) {
		t.Helper()
		patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/1/served","value":%s}]`, served)
		client, err := apiextensions.NewForConfig(cluster.Admin())
		require.NoError(t, err)
		_, err = client.ApiextensionsV1().CustomResourceDefinitions().
			Patch(t.Context(), crd.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	setServed("true")
	framework.Eventually(t, "v2 is served", func(ctx context.Context) error {
		if _, err := v2.in(t, namespace).Get(ctx, "a", metav1.GetOptions{}); err != nil {
			return err
		}
		return shown(ctx, v2.GroupVersionResource, true)
	})
	setServed("false")
	framework.Eventually(t, "v2 is not served any more", func(ctx context.Context) error {
		_, err := v2.in(t, namespace).Get(ctx, "a", metav1.GetOptions{})
		if err := unless(apierrors.IsNotFound, err); err != nil {
			return err
		}
		return hasAPIService(ctx, v2.GroupVersion(), false)
	})
	if err := shown(t.Context(), v1.GroupVersionResource, true); err != nil {
		t.Error("the other version:", err)
	}
}

func TestDeletingADefinitionDeletesItsObjects(t *testing.T) {
	t.Parallel()
	crd := newWidgets()
	r := resource{installCRD(t, cluster, crd), "Widget"}
	namespace := createNamespace(t)
	held := r.object("held", "red")
	held.SetFinalizers([]string{"example.com/held"})
	client := r.in(t, namespace)
	create(t, client, held)
	extensions, err := apiextensions.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	definitions := extensions.ApiextensionsV1().CustomResourceDefinitions()
	require.NoError(t, definitions.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}))
	framework.Eventually(t, "the object is being deleted", func(ctx context.Context) error {
		object, err := client.Get(ctx, "held", metav1.GetOptions{})
		if err == nil && object.GetDeletionTimestamp() == nil {
			err = errors.New("no deletionTimestamp")
		}
		return err
	})
	_, err = client.Create(t.Context(), r.object("late", "red"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("creating an object of a CRD that is being deleted: %v", err)
	}
	release(t, client, "held")
	framework.Eventually(t, "the CRD is gone", func(ctx context.Context) error {
		_, err := definitions.Get(ctx, crd.Name, metav1.GetOptions{})
		return unless(apierrors.IsNotFound, err)
	})
}

func release(t testing.TB, client dynamic.ResourceInterface, name string) {
	t.Helper()
	_, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

func TestTheVersionOfTheHighestRankIsPreferred(t *testing.T) {
	t.Parallel()
	crd := newWidgets()
	for _, name := range []string{"v2alpha1", "v1beta1", "v2"} {
		version := *crd.Spec.Versions[0].DeepCopy()
		version.Name, version.Storage = name, false
		crd.Spec.Versions = append(crd.Spec.Versions, version)
	}
	gvr := installCRD(t, cluster, crd)
	framework.Eventually(t, "discovery has every version", func(ctx context.Context) error {
		resp, err := send(ctx, cluster.Admin(), http.MethodGet, "/apis/"+gvr.Group, nil, nil)
		if err != nil {
			return err
		}
		var names []string
		if resp.Code == http.StatusOK {
			for _, version := range decode[metav1.APIGroup](t, resp, http.StatusOK).Versions {
				names = append(names, version.Version)
			}
		}
		if want := []string{"v2", "v1", "v1beta1", "v2alpha1"}; !slices.Equal(names, want) {
			return fmt.Errorf("got %v, want %v", names, want)
		}
		return nil
	})
}

func sized(object *unstructured.Unstructured, size int64) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.Object["spec"] = map[string]any{"size": size}
	return object
}

func size(object *unstructured.Unstructured, section string) int64 {
	value, _, _ := unstructured.NestedInt64(object.Object, section, "size")
	return value
}
