// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envtest runs a controller under controller-runtime's envtest, with the drop-in in the place of kube-apiserver, whole and in parts, and with an
// instance whose extensions is in three parts.
package envtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tripod-k8s/tripod/test/framework"
)

const group = "example.com"

func boat(group string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Boat"}
}

// useDropIn makes envtest start the drop-in, found by the name that it is called by, and an etcd.
func useDropIn(t *testing.T) {
	t.Helper()
	env := framework.ForTest(t)
	dir := t.TempDir()
	apiserver := filepath.Join(dir, "kube-apiserver")
	require.NoError(t, os.Symlink(env.Binary("tripod"), apiserver))
	t.Setenv("TEST_ASSET_KUBE_APISERVER", apiserver)
	t.Setenv("TEST_ASSET_ETCD", env.Binary("test-assets/etcd"))
	t.Setenv("TEST_ASSET_KUBECTL", env.Binary("tripod"))
}

func boatCRD(group string) *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "boats." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "boats", Singular: "boat", Kind: "Boat", ListKind: "BoatList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: boat(group).Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
}

// harbour gives every boat a ConfigMap that belongs to it, and reports that in the boat's status.
type harbour struct {
	client.Client
	group string
}

func (h harbour) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := newBoat(h.group, req.Namespace, req.Name)
	if err := h.Get(ctx, req.NamespacedName, b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	berth := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: berthOf(h.group, req.Name)}}
	_, err := controllerutil.CreateOrUpdate(ctx, h.Client, berth, func() error {
		berth.Data = map[string]string{"boat": req.Name}
		return controllerutil.SetControllerReference(b, berth, h.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := unstructured.SetNestedField(b.Object, berth.Name, "status", "berth"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, h.Status().Update(ctx, b)
}

func berthOf(group, name string) string { return name + "." + group + "-berth" }

func newBoat(group, namespace, name string) *unstructured.Unstructured {
	b := &unstructured.Unstructured{}
	b.SetGroupVersionKind(boat(group))
	b.SetNamespace(namespace)
	b.SetName(name)
	return b
}

func TestAControllerWorksUnderEnvtestWithTheDropIn(t *testing.T) {
	useDropIn(t)
	works(t, &envtest.Environment{}, group)
}

// TestAControllerWorksUnderEnvtestWithADividedDropIn has envtest give the drop-in two partitions, and a controller for a group of each of the three.
func TestAControllerWorksUnderEnvtestWithADividedDropIn(t *testing.T) {
	useDropIn(t)
	environment := &envtest.Environment{}
	environment.ControlPlane.GetAPIServer().Configure().Append("extensions-partition", "a="+group, "b=*.example.org")
	works(t, environment, group, "team.example.org", "example.net")
	client, err := discovery.NewDiscoveryClientForConfig(environment.Config)
	require.NoError(t, err)
	for service, boats := range map[string]string{"extensions": "example.net", "extensions-a": group, "extensions-b": "team.example.org"} {
		metrics, err := client.RESTClient().Get().AbsPath("/metrics").Param("service", service).DoRaw(t.Context())
		require.NoError(t, err, service)
		for _, other := range []string{"example.net", group, "team.example.org"} {
			assert.Equal(t, other == boats, strings.Contains(string(metrics), `group="`+other+`"`), "requests for %s at %s", other, service)
		}
	}
}

// TestAControllerWorksUnderEnvtestWithPartitions has envtest use an instance of three partitions, and a controller for a group of each.
func TestAControllerWorksUnderEnvtestWithPartitions(t *testing.T) {
	env := framework.ForTest(t)
	var options framework.TripodOptions
	if len(framework.Partitions()) == 0 {
		options.Args = []string{"--extensions-partition=a=" + group, "--extensions-partition=b=*.example.org"}
	}
	tripod, err := env.StartTripod(t.Context(), options)
	require.NoError(t, err)
	existing := true
	works(t, &envtest.Environment{UseExistingCluster: &existing, Config: tripod.Admin()}, group, "team.example.org", "example.net")
}

// works starts an environment with boats of each group, and a controller for each.
func works(t *testing.T, environment *envtest.Environment, groups ...string) {
	t.Helper()
	ctrl.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(os.Stderr)))
	for _, group := range groups {
		environment.CRDs = append(environment.CRDs, boatCRD(group))
	}
	config, err := environment.Start()
	require.NoError(t, err, "envtest did not start")
	t.Cleanup(func() {
		assert.NoError(t, environment.Stop(), "envtest did not stop")
	})

	repeated := true // each test names its controllers by their groups
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, Controller: controllerconfig.Controller{SkipNameValidation: &repeated},
	})
	require.NoError(t, err)
	for _, group := range groups {
		built := ctrl.NewControllerManagedBy(manager).Named(group).For(newBoat(group, "", "")).Owns(&corev1.ConfigMap{})
		require.NoError(t, built.Complete(harbour{manager.GetClient(), group}))
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-done, "end of the manager")
	})
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	for _, group := range groups {
		controls(ctx, t, c, group)
	}
}

// controls expects that a controller works for boats of a group.
func controls(ctx context.Context, t *testing.T, c client.Client, group string) {
	t.Helper()
	dinghy := newBoat(group, "default", "dinghy")
	require.NoError(t, c.Create(ctx, dinghy), "the custom resource could not be created right after envtest had started")
	key := client.ObjectKey{Namespace: "default", Name: berthOf(group, "dinghy")}
	expectBerth := func(ctx context.Context) error { return c.Get(ctx, key, &corev1.ConfigMap{}) }
	framework.Eventually(t, "the controller makes a ConfigMap for the boat", expectBerth)
	framework.Eventually(t, "the boat's status names the ConfigMap", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(dinghy), dinghy); err != nil {
			return err
		}
		if berth, _, _ := unstructured.NestedString(dinghy.Object, "status", "berth"); berth != key.Name {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "berth"}, berth)
		}
		return nil
	})
	require.NoError(t, c.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	framework.Eventually(t, "the controller makes the ConfigMap again", expectBerth)
}

func TestEnvtestAddsUsers(t *testing.T) {
	useDropIn(t)
	environment := &envtest.Environment{}
	if _, err := environment.Start(); err != nil {
		t.Fatalf("envtest did not start: %v", err)
	}
	t.Cleanup(func() {
		assert.NoError(t, environment.Stop(), "envtest did not stop")
	})
	user, err := environment.AddUser(envtest.User{Name: "jane", Groups: []string{"devs"}}, nil)
	require.NoError(t, err)
	c, err := client.New(user.Config(), client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	if err := c.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights lists Secrets: %v", err)
	}
}
