// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	stock "k8s.io/apiextensions-apiserver/pkg/controller/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// definition returns an established CustomResourceDefinition. It serves v1 and v2, but not v0.
func definition(name string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name + "s.example.com", UID: types.UID(name), Generation: 1},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: name + "s", Singular: name, Kind: "The" + name, ListKind: "The" + name + "List"},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
		}},
	}
	for i, version := range []string{"v0", "v1", "v2"} {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: i > 0, Storage: i == 2,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Description: "What " + name + " is.", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"size": {Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("7")}},
					}},
				},
			}},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		})
	}
	return crd
}

func static() *spec.Swagger {
	return &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "extensions"}},
		Paths:       &spec.Paths{Paths: map[string]spec.PathItem{"/apis/apiextensions.k8s.io/": {}}},
		Definitions: spec.Definitions{"Own": *spec.StringProperty()},
	}}
}

// factory returns informers that know these definitions.
func factory(t *testing.T, definitions ...runtime.Object) informers.SharedInformerFactory {
	t.Helper()
	f := informers.NewSharedInformerFactory(fake.NewSimpleClientset(definitions...), 0)
	informer := f.Apiextensions().V1().CustomResourceDefinitions().Informer()
	f.Start(t.Context().Done())
	for kind, synced := range f.WaitForCacheSync(t.Context().Done()) {
		require.True(t, synced, "%s", kind)
	}
	require.Len(t, informer.GetStore().List(), len(definitions))
	return f
}

// asked returns the document as a service of this kind answers it.
func asked(t *testing.T, service *handler.OpenAPIService) map[string]any {
	t.Helper()
	mux := pathHandler{http.NewServeMux()}
	service.RegisterOpenAPIVersionedService("/openapi/v2", mux)
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/openapi/v2", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	var document map[string]any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &document))
	return document
}

type pathHandler struct{ *http.ServeMux }

func (h pathHandler) HandlePrefix(path string, handler http.Handler) { h.Handle(path, handler) }

// TestTheDocumentIsThatOfKubernetes compares with the controller of apiextensions-apiserver.
func TestTheDocumentIsThatOfKubernetes(t *testing.T) {
	waits := definition("wait")
	waits.Status.Conditions = nil
	var definitions []runtime.Object
	for i := range 20 {
		definitions = append(definitions, definition(fmt.Sprintf("thing%d", i)))
	}
	f := factory(t, append(definitions, waits)...)

	theirs := handler.NewOpenAPIService(static())
	go stock.NewController(f.Apiextensions().V1().CustomResourceDefinitions()).Run(static(), theirs, t.Context().Done())
	ours := handler.NewOpenAPIServiceLazy(New(static(), f.Apiextensions().V1().CustomResourceDefinitions().Lister()))

	got := asked(t, ours)
	require.Len(t, got["definitions"], 1+20*2*2+metaDefinitions(got), "of each version an object and its list")
	assert.EventuallyWithT(t, func(c *assert.CollectT) { // their controller starts by itself
		assert.Equal(c, asked(t, theirs), got)
	}, 30*time.Second, 50*time.Millisecond)
}

// metaDefinitions counts the definitions that do not come from these CustomResourceDefinitions.
func metaDefinitions(document map[string]any) (n int) {
	for name := range document["definitions"].(map[string]any) {
		if name != "Own" && len(name) > 3 && name[:3] == "io." {
			n++
		}
	}
	return n
}

func TestTheDocumentFollowsDefinitions(t *testing.T) {
	f := factory(t, definition("one"), definition("two"))
	definitions := f.Apiextensions().V1().CustomResourceDefinitions()
	document := New(static(), definitions.Lister())
	has := func(name string) bool {
		swagger, _, err := document.Get()
		require.NoError(t, err)
		_, ok := swagger.Definitions["com.example.v1."+name]
		return ok
	}
	assert.True(t, has("Theone"))
	assert.True(t, has("Thetwo"))
	_, first, _ := document.Get()
	_, again, _ := document.Get()
	assert.Equal(t, first, again, "nothing changed")

	store := definitions.Informer().GetStore()
	changed := definition("one")
	changed.Generation++
	changed.Spec.Versions[1].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{Type: "object", Description: "Something else."}
	require.NoError(t, store.Update(changed))
	swagger, second, err := document.Get()
	require.NoError(t, err)
	assert.NotEqual(t, first, second)
	assert.Equal(t, "Something else.", swagger.Definitions["com.example.v1.Theone"].Properties["spec"].Description)

	require.NoError(t, store.Delete(definition("two")))
	assert.False(t, has("Thetwo"))
	assert.True(t, has("Theone"))
	require.NoError(t, store.Add(definition("three")))
	assert.True(t, has("Thethree"))
	assert.Len(t, document.parts, 2, "nothing is kept of a definition that is gone")

	rejected := definition("three")
	rejected.Status.Conditions[0].Status = apiextensionsv1.ConditionFalse
	require.NoError(t, store.Update(rejected))
	assert.False(t, has("Thethree"))
	require.NoError(t, store.Delete(changed))
	swagger, _, err = document.Get()
	require.NoError(t, err)
	assert.Equal(t, static().Definitions, swagger.Definitions, "no definition is left")
}
