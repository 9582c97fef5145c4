// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	namespaceregistry "k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
)

// strategies has the code of kube-apiserver that prepares and validates new objects, by kind.
var strategies = map[string]rest.RESTCreateStrategy{
	"Deployment":              deployment.Strategy,
	"StatefulSet":             statefulset.Strategy,
	"HorizontalPodAutoscaler": horizontalpodautoscaler.Strategy,
	"CronJob":                 cronjob.Strategy,
	"Job":                     job.Strategy,
	"ConfigMap":               configmap.Strategy,
	"PersistentVolumeClaim":   persistentvolumeclaim.Strategy,
	"Pod":                     podregistry.Strategy,
	"Secret":                  secret.Strategy,
	"Service":                 service.Strategy,
	"ServiceAccount":          serviceaccount.Strategy,
	"NetworkPolicy":           networkpolicy.Strategy,
	"PodDisruptionBudget":     poddisruptionbudget.Strategy,
	"Role":                    role.Strategy,
	"RoleBinding":             rolebinding.Strategy,
	"PriorityClass":           priorityclass.Strategy,
	"Namespace":               namespaceregistry.Strategy,
	"ClusterRoleBinding":      clusterrolebinding.Strategy,
	"DaemonSet":               daemonset.Strategy,
}

// strict decodes objects as an API server does for fieldValidation=Strict.
var strict = json.NewSerializerWithOptions(json.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, json.SerializerOptions{Strict: true})

// accepted returns an error if an API server would refuse an object.
func accepted(object *unstructured.Unstructured) error {
	if empty, ok := thirdPartyKinds[object.GroupVersionKind().GroupKind()]; ok {
		return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, empty(), true)
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	typed, _, err := strict.Decode(data, nil, nil)
	if err != nil {
		return err
	}
	legacyscheme.Scheme.Default(typed)
	gvk := object.GroupVersionKind()
	internal, err := legacyscheme.Scheme.ConvertToVersion(typed, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return err
	}
	strategy, ok := strategies[gvk.Kind]
	if !ok {
		return fmt.Errorf("there is no strategy for %s; add it to strategies", gvk.Kind)
	}
	meta, err := apimeta.Accessor(internal)
	if err != nil {
		return err
	}
	rest.FillObjectMetaSystemFields(meta)
	allocate(internal)
	ctx := genericapirequest.WithNamespace(genericapirequest.NewContext(), object.GetNamespace())
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{APIGroup: gvk.Group, APIVersion: gvk.Version})
	return rest.BeforeCreate(strategy, ctx, internal)
}

// allocate sets the fields of a Service that an API server allocates before it validates.
func allocate(object runtime.Object) {
	service, ok := object.(*core.Service)
	if !ok {
		return
	}
	if service.Spec.ClusterIP != "" {
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
	}
	if service.Spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal && service.Spec.Type == core.ServiceTypeLoadBalancer {
		service.Spec.HealthCheckNodePort = 30000
	}
}

// checkAccepted checks that an API server would accept all objects, and that no object occurs twice.
func checkAccepted(t *testing.T, r release) {
	t.Helper()
	seen := map[string]bool{}
	for _, object := range r.objects {
		name := object.GroupVersionKind().GroupKind().String() + " " + object.GetName()
		assert.False(t, seen[name], "%s occurs twice", name)
		seen[name] = true
		assert.NoError(t, accepted(object), name)
	}
}

func TestObjectsAreAccepted(t *testing.T) { forEachProfile(t, checkAccepted) }
