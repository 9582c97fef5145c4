// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func byStrategy(d *appsv1.Deployment) string { return string(d.Spec.Strategy.Type) }

func TestFieldSelectorsSelectByTheFieldsOfTheAuthor(t *testing.T) {
	g := apps
	resource := Objects[*appsv1.Deployment]{Name: "deployments", SelectableFields: map[string]func(*appsv1.Deployment) string{"spec.strategy.type": byStrategy}}
	g.Resources = []Resource{resource}
	ts, err := newTestTypes(t, g)
	require.NoError(t, err)
	kind := appsv1.SchemeGroupVersion.WithKind("Deployment")
	for _, label := range []string{"spec.strategy.type", "metadata.name", "metadata.namespace"} {
		name, value, err := ts.scheme.ConvertFieldLabel(kind, label, "x")
		require.NoError(t, err)
		assert.Equal(t, label+"=x", name+"="+value)
	}
	_, _, err = ts.scheme.ConvertFieldLabel(kind, "spec.replicas", "1")
	assert.EqualError(t, err, `"spec.replicas" is not a known field selector: only "metadata.name", "metadata.namespace", "spec.strategy.type"`)

	s := newStrategy(resource, ts.scheme, g)
	object := deployment(1, 1)
	object.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	for selector, want := range map[string]bool{
		"spec.strategy.type=Recreate": true, "spec.strategy.type!=Recreate": false, "spec.strategy.type=Recreate,metadata.name=web": true,
		"metadata.name=other": false, "spec.strategy.type=": false,
	} {
		predicate := s.match(labels.Everything(), fields.ParseSelectorOrDie(selector))
		matches, err := predicate.Matches(object)
		require.NoError(t, err)
		assert.Equal(t, want, matches, selector)
	}
}

func TestSelectableFieldsAreChecked(t *testing.T) {
	for name, want := range map[string]string{
		"":              `SelectableFields has "", which is not a path such as spec.author`,
		"spec..author":  `SelectableFields has "spec..author", which is not a path`,
		".spec.author":  `SelectableFields has ".spec.author", which is not a path`,
		"metadata.name": "SelectableFields has metadata.name, which every resource has",
	} {
		g := apps
		g.Resources = []Resource{Objects[*appsv1.Deployment]{
			Name: "deployments", SelectableFields: map[string]func(*appsv1.Deployment) string{name: byStrategy},
		}}
		_, err := newTestTypes(t, g)
		assert.ErrorContains(t, err, "resource deployments: "+want)
	}
	g := apps
	g.Resources = []Resource{Objects[*appsv1.Deployment]{
		Name: "deployments", SelectableFields: map[string]func(*appsv1.Deployment) string{"spec.paused": nil},
	}}
	_, err := newTestTypes(t, g)
	assert.ErrorContains(t, err, "SelectableFields has no function for spec.paused")
}

func TestWarningsAreAboutWhatUsersWrite(t *testing.T) {
	whole := newStrategy(Objects[*appsv1.Deployment]{Status: true, Warnings: func(_ context.Context, object, old *appsv1.Deployment) []string {
		if old == nil {
			return []string{"new " + object.Name}
		}
		return []string{"changed " + old.Name}
	}}, nil, apps)
	object, old := deployment(1, 1), deployment(2, 1)
	assert.Equal(t, []string{"new web"}, whole.WarningsOnCreate(t.Context(), object))
	assert.Equal(t, []string{"changed web"}, whole.WarningsOnUpdate(t.Context(), object, old))
	assert.Empty(t, statusStrategy[*appsv1.Deployment]{whole}.WarningsOnUpdate(t.Context(), object, old))
	none := newStrategy(Objects[*appsv1.Deployment]{}, nil, apps)
	assert.Empty(t, none.WarningsOnCreate(t.Context(), object))
	assert.Empty(t, none.WarningsOnUpdate(t.Context(), object, old))
}
