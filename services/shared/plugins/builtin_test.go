// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// chainWithout returns all plugins but those of a set, as core runs them.
func chainWithout(t *testing.T, set Set) admission.Interface {
	t.Helper()
	require.NoError(t, utilfeature.DefaultMutableFeatureGate.Set("AllAlpha=true,AllBeta=true"))
	o := kubeoptions.NewAdmissionOptions().GenericAdmission
	o.DefaultOffPlugins.Clear()
	o.DisablePlugins = set.Names()
	o.ConfigFile = configuration(t)
	config := genericapiserver.NewConfig(legacyscheme.Codecs)
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysDenyAuthorizer()
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	err := o.ApplyTo(config, factory, client, dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()),
		utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(), countQuota{})
	require.NoError(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return config.AdmissionControl
}

// countQuota configures ResourceQuota.
type countQuota struct{}

func (countQuota) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(generic.NewConfiguration(nil, nil))
	}
}

// configuration writes the file of --admission-control-config-file with what plugins do not start without.
func configuration(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"admission.yaml": `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Server, qps: 1, burst: 1}]}
- name: ImagePolicyWebhook
  configuration: {imagePolicy: {kubeConfigFile: ` + filepath.Join(dir, "kubeconfig") + `, allowTTL: 50, denyTTL: 50, retryBackoff: 500, defaultAllow: false}}
`,
		"kubeconfig": `
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return filepath.Join(dir, "admission.yaml")
}

// It is why extensions and the aggregator do without them.
func TestOtherPluginsLeaveObjectsAlone(t *testing.T) {
	// A pod of another group has all that a plugin could look at.
	podLike := func(namespace string) map[string]any {
		return map[string]any{
			"apiVersion": "example.com/v1", "kind": "Pod", "metadata": map[string]any{"name": "a", "namespace": namespace},
			"spec": map[string]any{"nodeName": "c", "hostNetwork": true, "containers": []any{map[string]any{"name": "d", "image": "e"}}},
		}
	}
	for _, test := range []struct {
		name      string
		set       Set
		namespace string
		resource  schema.GroupVersionResource
		kind      string
		object    map[string]any
	}{
		{
			"custom resources", ForCustomResources(), "b", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "pods"}, "Pod", podLike("b"),
		},
		{
			"APIServices", ForAPIServices(), "", schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, "APIService",
			map[string]any{
				"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.example.com"},
				"spec": map[string]any{"group": "example.com", "version": "v1", "service": map[string]any{"namespace": "b", "name": "f"}},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			chain := chainWithout(t, test.set)
			newObject := func() *unstructured.Unstructured {
				return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(test.object)}
			}
			for _, operation := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
				for _, subresource := range []string{"", "status", "scale"} {
					object, old := newObject(), newObject()
					sender := &user.DefaultInfo{Name: "system:node:f", Groups: []string{user.NodesGroup}}
					attributes := admission.NewAttributesRecord(object, old, test.resource.GroupVersion().WithKind(test.kind), test.namespace, object.GetName(),
						test.resource, subresource, operation, nil, false, sender)
					interfaces := admission.NewObjectInterfacesFromScheme(runtime.NewScheme())
					if err := chain.(admission.MutationInterface).Admit(t.Context(), attributes, interfaces); err != nil {
						t.Errorf("%s of %q: %v", operation, subresource, err)
					}
					if err := chain.(admission.ValidationInterface).Validate(t.Context(), attributes, interfaces); err != nil {
						t.Errorf("%s of %q: %v", operation, subresource, err)
					}
					if !equality.Semantic.DeepEqual(object, newObject()) {
						t.Errorf("%s of %q changes the object to %v", operation, subresource, object)
					}
				}
			}
		})
	}
}
