// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// recorder is a publisher that passes on what it gets.
type recorder struct {
	catalogs    chan *backendv1.Catalog
	established chan string
	forgotten   chan string
}

func (t *recorder) SetCatalog(c *backendv1.Catalog) { t.catalogs <- c }
func (t *recorder) Establish(e *backendv1.Established) {
	t.established <- e.GetResource() + "." + e.GetGroup()
}
func (t *recorder) Forget(uid string) { t.forgotten <- uid }

func widgets(established bool) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", UID: "1", Generation: 1},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com",
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1", Served: true}, {Name: "v2", Served: true}, {Name: "v3"},
			},
		},
	}
	if established {
		crd.Status.AcceptedNames.Plural = "widgets"
		crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	}
	return crd
}

func TestAPartitionServesNoDefinitions(t *testing.T) {
	informer := externalversions.NewSharedInformerFactory(fake.NewClientset(widgets(true)), 0).Apiextensions().V1().CustomResourceDefinitions().Informer()
	published := &recorder{make(chan *backendv1.Catalog, 10), make(chan string, 10), make(chan string, 10)}
	require.NoError(t, Follow(informer, "build", false, published))
	go informer.RunWithContext(t.Context())
	expect(t, <-published.catalogs, "example.com/v1", "example.com/v2")
}

func TestCustomResourcesAreAnnounced(t *testing.T) {
	client := fake.NewClientset(widgets(false))
	informer := externalversions.NewSharedInformerFactory(client, 0).Apiextensions().V1().CustomResourceDefinitions().Informer()
	published := &recorder{make(chan *backendv1.Catalog, 10), make(chan string, 10), make(chan string, 10)}
	require.NoError(t, Follow(informer, "build", true, published))
	go informer.RunWithContext(t.Context())

	// Nothing is published before all definitions are known.
	first := <-published.catalogs
	expect(t, first, "apiextensions.k8s.io/v1", "example.com/v1", "example.com/v2")

	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Update(t.Context(), widgets(true), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	second := <-published.catalogs
	expect(t, second, "apiextensions.k8s.io/v1", "example.com/v1", "example.com/v2")
	if first.GetDiscoveryDigest() == second.GetDiscoveryDigest() {
		t.Error("the digest does not change when a CustomResourceDefinition is established")
	}
	if got := <-published.established; got != "widgets.example.com" {
		t.Errorf("%s is established", got)
	}

	relabelled := widgets(true)
	relabelled.Labels = map[string]string{"a": "b"}
	if _, err := crds.Update(t.Context(), relabelled, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	<-published.established // it is published with every change
	assert.Empty(t, published.catalogs, "a label makes a new catalog")

	converted := widgets(true)
	converted.Generation++
	converted.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{
			Service: &apiextensionsv1.ServiceReference{Namespace: "default", Name: "kubernetes", Path: new("/apis/a/v1/conversions")},
		}},
	}
	if _, err := crds.Update(t.Context(), converted, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := (<-published.catalogs).GetConversionWebhooks(), []string{"/apis/a/v1/conversions"}; !slices.Equal(got, want) {
		t.Errorf("conversion webhooks at the kubernetes Service are %q, want %q", got, want)
	}
	<-published.established

	require.NoError(t, crds.Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}))
	expect(t, <-published.catalogs, "apiextensions.k8s.io/v1")
	if got := <-published.forgotten; got != "1" {
		t.Errorf("%s is forgotten", got)
	}
}

func expect(t *testing.T, catalog *backendv1.Catalog, want ...string) {
	t.Helper()
	var got []string
	for _, gv := range catalog.GetGroupVersions() {
		got = append(got, gv.GetGroup()+"/"+gv.GetVersion())
	}
	assert.Empty(t, cmp.Diff(want, got), "group-versions")
}
