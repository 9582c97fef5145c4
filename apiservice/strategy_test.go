// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/common"
)

// The tests take types of Kubernetes as those of an author.
var apps = Group{Name: "apps", Versions: []string{"v1"}}

func newTestTypes(t *testing.T, g Group) (*types, error) {
	t.Helper()
	return newTypes(&Service{AddToScheme: []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme}, Groups: []Group{g}})
}

func deployment(replicas, ready int32) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Name, d.Generation = "web", 7
	d.Spec.Replicas, d.Status.ReadyReplicas = &replicas, ready
	return d
}

func TestOnlyTheSubresourceChangesTheStatus(t *testing.T) {
	whole := newStrategy(Objects[*appsv1.Deployment]{Status: true, CreateOnUpdate: true}, nil, apps)
	status := statusStrategy[*appsv1.Deployment]{whole}
	for name, test := range map[string]struct {
		update                      rest.RESTUpdateStrategy
		object                      *appsv1.Deployment
		replicas, ready, generation int32
	}{
		"the object":                    {whole, deployment(3, 3), 3, 1, 8},
		"the object without a change":   {whole, deployment(1, 3), 1, 1, 7},
		"the status":                    {status, deployment(3, 3), 1, 3, 7},
		"the status without its change": {status, deployment(3, 1), 1, 1, 7},
	} {
		t.Run(name, func(t *testing.T) {
			old := deployment(1, 1)
			test.object.Labels = map[string]string{"changed": name}
			test.update.PrepareForUpdate(t.Context(), test.object, old)
			assert.Equal(t, test.replicas, *test.object.Spec.Replicas)
			assert.Equal(t, test.ready, test.object.Status.ReadyReplicas)
			assert.EqualValues(t, test.generation, test.object.Generation)
			_, onlyStatus := test.update.(statusStrategy[*appsv1.Deployment])
			assert.Equal(t, onlyStatus, test.object.Labels == nil, "labels")
			assert.Equal(t, deployment(1, 1), old, "the stored object is not changed")
		})
	}

	created := deployment(1, 1)
	whole.PrepareForCreate(t.Context(), created)
	assert.Zero(t, created.Status)
	assert.EqualValues(t, 1, created.Generation)

	assert.True(t, allowsCreateOnUpdate(t, whole))
	assert.False(t, allowsCreateOnUpdate(t, status), "PUT of a status creates no object")
}

// allowsCreateOnUpdate asks a strategy, whose method takes a context since Kubernetes 1.37.
func allowsCreateOnUpdate(t *testing.T, strategy rest.RESTUpdateStrategy) bool {
	t.Helper()
	method := reflect.ValueOf(strategy).MethodByName("AllowCreateOnUpdate")
	arguments := []reflect.Value{reflect.ValueOf(t.Context())}
	return method.Call(arguments[:method.Type().NumIn()])[0].Bool()
}

func TestWrongResources(t *testing.T) {
	custom := func(change func(*Custom)) Custom {
		c := Custom{Name: "deployments", Example: &appsv1.Deployment{}, New: func(*Environment) (rest.Storage, error) { return nil, nil }}
		change(&c)
		return c
	}
	for name, test := range map[string]struct {
		group    Group
		resource Resource
		wrong    string
	}{
		"right":                     {apps, Objects[*appsv1.Deployment]{Name: "deployments", Status: true}, ""},
		"right custom":              {apps, custom(func(*Custom) {}), ""},
		"no name":                   {apps, Objects[*appsv1.Deployment]{}, "has no Name"},
		"a version of another":      {apps, Objects[*appsv1.Deployment]{Name: "deployments", Versions: []string{"v2"}}, "version v2 is not one of the group"},
		"a custom one's version":    {apps, custom(func(c *Custom) { c.Versions = []string{"v2"} }), "version v2 is not one of the group"},
		"custom without a storage":  {apps, custom(func(c *Custom) { c.New = nil }), "needs Name, Example and New"},
		"a status that is not":      {apps, Objects[*appsv1.ControllerRevision]{Name: "controllerrevisions", Status: true}, "has no field Spec"},
		"a type of another group":   {apps, Objects[*corev1.Pod]{Name: "pods"}, `is of group ""`},
		"a type that is not stored": {Group{Name: "apps", Versions: []string{"v1", "v2"}, StorageVersion: "v2"}, Objects[*appsv1.Deployment]{Name: "deployments"}, "AddToScheme adds no Deployment in version v2"},
	} {
		t.Run(name, func(t *testing.T) {
			test.group.Resources = []Resource{test.resource}
			types, err := newTestTypes(t, test.group)
			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				return
			}
			require.NoError(t, err)
			assert.True(t, types.scheme.Recognizes(schema.GroupVersionKind{Group: "apps", Version: runtime.APIVersionInternal, Kind: "Deployment"}))
		})
	}
}

func TestWrongServices(t *testing.T) {
	right := func() Service {
		return Service{Name: "wardle", Groups: []Group{apps}, Definitions: definitions}
	}
	for name, test := range map[string]struct {
		change func(*Service)
		wrong  string
	}{
		"right":                        {func(*Service) {}, ""},
		"a name that is no Service's":  {func(s *Service) { s.Name = "4wardle" }, `"4wardle" is not the name of a service`},
		"a name of Tripod":             {func(s *Service) { s.Name = "core" }, "is a service of Tripod itself"},
		"no groups":                    {func(s *Service) { s.Groups = nil }, "Groups and Definitions are required"},
		"no versions":                  {func(s *Service) { s.Groups = []Group{{Name: "apps"}} }, "group apps has no versions"},
		"a version that is not one":    {func(s *Service) { s.Groups = []Group{{Name: "apps", Versions: []string{"1"}}} }, `"1" is not a version`},
		"a storage version of nowhere": {func(s *Service) { s.Groups[0].StorageVersion = "v2" }, `StorageVersion "v2" is not among Versions`},
		"a plugin without a name":      {func(s *Service) { s.Plugins = []Plugin{{}} }, "a plugin needs Name and New"},
	} {
		t.Run(name, func(t *testing.T) {
			s := right()
			test.change(&s)
			if err := s.validate(); test.wrong == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.wrong)
			}
		})
	}
}

func definitions(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return nil }

// An editor of a file knows nothing of generations.
func TestAnObjectFromElsewhereIsAdmittedAsAnUpdateIs(t *testing.T) {
	s := newStrategy(Objects[*appsv1.Deployment]{
		Status: true,
		Validate: func(_ context.Context, d *appsv1.Deployment) field.ErrorList {
			if *d.Spec.Replicas < 0 {
				return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), *d.Spec.Replicas, "must not be negative")}
			}
			return nil
		},
	}, nil, apps)
	in := func(namespace string, d *appsv1.Deployment) *appsv1.Deployment {
		d.Namespace = namespace
		return d
	}
	for name, test := range map[string]struct {
		replicas, ready int32
		generation      int64
	}{"another spec": {2, 1, 8}, "another status": {1, 2, 7}, "the same": {1, 1, 7}} {
		object := in("shop", deployment(test.replicas, test.ready))
		require.NoError(t, s.admitStored(object, in("shop", deployment(1, 1))), name)
		assert.Equal(t, test.generation, object.Generation, name)
	}
	fresh := in("shop", deployment(1, 1))
	fresh.Generation = 0
	require.NoError(t, s.admitStored(fresh, nil))
	assert.EqualValues(t, 1, fresh.Generation)
	fresh.Generation = 7
	require.NoError(t, s.admitStored(fresh, nil))
	assert.EqualValues(t, 7, fresh.Generation, "a file has the generation of an object since before a restart")
	bare := in("shop", deployment(1, 0))
	require.NoError(t, s.admitStored(bare, in("shop", deployment(1, 1))))
	assert.EqualValues(t, 1, bare.Status.ReadyReplicas, "an edit that has no status leaves it")
	other := in("shop", deployment(1, 1))
	other.UID = "other"
	require.ErrorContains(t, s.admitStored(other, in("shop", deployment(1, 1))), "metadata.uid: Invalid value")
	require.ErrorContains(t, s.admitStored(in("shop", deployment(-1, 1)), nil), "must not be negative")
	require.ErrorContains(t, s.admitStored(in("shop", deployment(-1, 1)), deployment(1, 1)), "must not be negative")
	require.ErrorContains(t, s.admitStored(deployment(1, 1), nil), "metadata.namespace: Required value")
}
