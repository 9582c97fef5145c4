// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func object(properties map[string]spec.Schema) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties}}
}

// limited are schemas of Deployments with limits, as openapi-gen writes them, by way of references.
func limited() map[string]common.OpenAPIDefinition {
	most, two, least := 10.0, int64(2), int64(1)
	pod := object(map[string]spec.Schema{
		"containers": {SchemaProps: spec.SchemaProps{
			Type: []string{"array"}, MaxItems: &two, Items: &spec.SchemaOrArray{Schema: &spec.Schema{SchemaProps: spec.SchemaProps{
				Default: map[string]any{}, Ref: spec.MustCreateRef("example.com/v1.Container"),
			}}},
		}},
		"hostname": {SchemaProps: spec.SchemaProps{Type: []string{"string"}, MaxLength: &two}},
	})
	deployment := object(map[string]spec.Schema{
		"replicas": {SchemaProps: spec.SchemaProps{Type: []string{"integer"}, Format: "int32", Maximum: &most}},
		"strategy": object(map[string]spec.Schema{"type": {SchemaProps: spec.SchemaProps{Enum: []any{"Recreate", "RollingUpdate"}}}}),
		"selector": object(map[string]spec.Schema{"matchLabels": {SchemaProps: spec.SchemaProps{
			AdditionalProperties: &spec.SchemaOrBool{Allows: true, Schema: &spec.Schema{SchemaProps: spec.SchemaProps{Pattern: "^[a-z]+$"}}},
		}}}),
		"template": object(map[string]spec.Schema{"spec": {SchemaProps: spec.SchemaProps{AllOf: []spec.Schema{pod}}}}),
		"itself":   {SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef("example.com/v1.Spec")}},
	})
	deployment.Required = []string{"a field that the Go type does not have"}
	root := object(map[string]spec.Schema{"spec": {SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef("example.com/v1.Spec")}}})
	container := object(map[string]spec.Schema{"name": {SchemaProps: spec.SchemaProps{Type: []string{"string"}, MinLength: &least}}})
	return map[string]common.OpenAPIDefinition{
		util.GetCanonicalTypeName(&appsv1.Deployment{}): {Schema: root},
		"example.com/v1.Spec":                           {Schema: deployment},
		"example.com/v1.Container":                      {Schema: container},
	}
}

func TestLimitsOfTheSchemaHold(t *testing.T) {
	l := newLimits(limited(), &appsv1.Deployment{})
	for name, test := range map[string]struct {
		change func(*appsv1.DeploymentSpec)
		want   []string
	}{
		"nothing exceeded": {func(*appsv1.DeploymentSpec) {}, nil},
		"maximum": {
			func(s *appsv1.DeploymentSpec) { *s.Replicas = 11 },
			[]string{"spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10"},
		},
		"enum": {
			func(s *appsv1.DeploymentSpec) { s.Strategy.Type = "Other" },
			[]string{`spec.strategy.type: Unsupported value: "Other": supported values: "Recreate", "RollingUpdate"`},
		},
		"pattern of the values of a map": {
			func(s *appsv1.DeploymentSpec) {
				s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "WEB"}}
			},
			[]string{`spec.selector.matchLabels.app: Invalid value: "WEB": spec.selector.matchLabels.app in body should match '^[a-z]+$'`},
		},
		"items, and their number": {
			func(s *appsv1.DeploymentSpec) {
				s.Template.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}, {Image: "c"}}
				s.Template.Spec.Hostname = "äöü"
			},
			[]string{
				"spec.template.spec.containers: Too many: 3: must have at most 2 items",
				`spec.template.spec.containers[2].name: Invalid value: "": spec.template.spec.containers[2].name in body should be at least 1 chars long`,
				"spec.template.spec.hostname: Too long: may not be more than 2 characters",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := deployment(1, 0)
			test.change(&d.Spec)
			var got []string
			for _, err := range l.validate(d) {
				got = append(got, err.Error())
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// boat has pointers without omitempty, which are null in JSON if they are nil.
type boat struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Hull  *string            `json:"hull"`
	Sails []*string          `json:"sails"`
	Ropes map[string]*string `json:"ropes"`
	Masts []mast             `json:"masts"`
}

type mast struct {
	Form *string `json:"form"`
}

func (b *boat) DeepCopyObject() runtime.Object { return new(*b) }

func TestNoLimitAppliesToANullField(t *testing.T) {
	form := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"string"}, Enum: []any{"Long", "Round"}}}
	listOf := func(s spec.Schema) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"array"}, Items: &spec.SchemaOrArray{Schema: &s}}}
	}
	l := newLimits(map[string]common.OpenAPIDefinition{
		util.GetCanonicalTypeName(&boat{}): {Schema: object(map[string]spec.Schema{
			"hull": form, "sails": listOf(form),
			"ropes": {SchemaProps: spec.SchemaProps{AdditionalProperties: &spec.SchemaOrBool{Allows: true, Schema: &form}}},
			"masts": listOf(spec.Schema{SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef("example.com/v1.Mast")}}),
		})},
		"example.com/v1.Mast": {Schema: object(map[string]spec.Schema{"form": {SchemaProps: spec.SchemaProps{AllOf: []spec.Schema{form}}}})},
	}, &boat{})
	assert.Empty(t, l.validate(&boat{Masts: []mast{{}}}))
	wrong := new("Square")
	var fields []string
	for _, err := range l.validate(&boat{Hull: wrong, Sails: []*string{nil}, Ropes: map[string]*string{"a": nil}, Masts: []mast{{}, {wrong}}}) {
		fields = append(fields, err.Field)
	}
	assert.Equal(t, []string{"hull", "masts[1].form", "ropes.a", "sails[0]"}, fields)
}

// An author may lower a limit that objects exceed already.
func TestAnUpdateMayKeepWhatExceedsALimit(t *testing.T) {
	s := newStrategy(Objects[*appsv1.Deployment]{
		Validate: func(context.Context, *appsv1.Deployment) field.ErrorList {
			return field.ErrorList{field.Forbidden(field.NewPath("spec"), "of the author")}
		},
	}, nil, apps)
	s.limits = newLimits(limited(), &appsv1.Deployment{})
	old := deployment(11, 0)
	require.Len(t, s.Validate(t.Context(), old), 2, "a new object")
	assert.Len(t, s.ValidateUpdate(t.Context(), deployment(11, 1), old), 1, "the same value")
	assert.Len(t, s.ValidateUpdate(t.Context(), deployment(12, 0), old), 2, "another value")
	assert.Len(t, s.ValidateUpdate(t.Context(), deployment(10, 0), old), 1, "an allowed value")
	require.ErrorContains(t, s.admitStored(deployment(12, 0), nil), "less than or equal to 10", "a file")
}

func TestASchemaWithoutLimitsCostsNothing(t *testing.T) {
	all := limited()
	all["example.com/v1.Spec"] = common.OpenAPIDefinition{Schema: object(nil)}
	assert.Nil(t, newLimits(all, &appsv1.Deployment{}))
	assert.Nil(t, newLimits(all, &corev1.Pod{}), "a type without a schema")
}
