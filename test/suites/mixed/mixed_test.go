// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package mixed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

func TestMain(m *testing.M) {
	framework.Main(m, func(context.Context, *framework.Environment) error { return nil })
}

var (
	alpha = schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}
	beta  = schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1beta1", Resource: "flunders"}
)

func TestServicesOfTwoReleasesUnderstandEachOther(t *testing.T) {
	if os.Getenv("SKIP_MIXED") == "1" {
		t.Skip("SKIP_MIXED=1: whoever sets it says that the checkout has no history")
	}
	env := framework.ForTest(t)
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	release := t.TempDir()
	name, err := unpack(root, release)
	require.NoError(t, err)
	t.Log("the last release is ", name)
	programs := t.TempDir()
	wardle, aggregator := filepath.Join(programs, "wardle"), filepath.Join(programs, "tripod-aggregator")
	framework.BuildAlone(t, release, "examples/wardle", ".", wardle)
	program := "./cmd/tripod-services"
	if _, err := os.Stat(filepath.Join(release, program)); errors.Is(err, fs.ErrNotExist) {
		program = "./services/aggregator" // in a release in which the aggregator is a program of its own
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-C", release, "-ldflags=-s -w", "-o", aggregator, program)
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s: %s", build, output)

	for name, mixed := range map[string]struct{ aggregator, wardle string }{
		"a service of the last release behind this aggregator":  {env.Binary("tripod-aggregator"), wardle},
		"an aggregator of the last release before this service": {aggregator, env.Binary("wardle")},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := framework.NewFleet(t, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
				{Name: "core-0"}, {Name: "extensions-0"}, {Name: "aggregator-0", Binary: mixed.aggregator},
				{Name: "wardle-0", Binary: mixed.wardle}, {Name: "wardle-1", Binary: mixed.wardle},
			}})
			c := newCluster(t, fleet)
			t.Run("the API is whole", c.isWhole)
			t.Run("policy is in force", c.obeysPolicy)
			t.Run("a replica that stops loses no request", c.losesNothing)
		})
	}
}

// cluster is a fleet with the example of an API service, whose flunders tests use.
type cluster struct {
	*framework.Fleet
	namespace string
}

func newCluster(t *testing.T, fleet *framework.Fleet) *cluster {
	t.Helper()
	c := &cluster{fleet, framework.CreateNamespace(t, fleet.Cluster)}
	registrations, err := clientset.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	for _, gvr := range []schema.GroupVersionResource{alpha, beta} {
		framework.Eventually(t, gvr.Version+" is available, by its feed", func(ctx context.Context) error {
			service, err := registrations.ApiregistrationV1().APIServices().Get(ctx, gvr.Version+"."+gvr.Group, metav1.GetOptions{})
			if err == nil && (service.Spec.Service == nil || service.Spec.Service.Name != "wardle" || !helper.IsAPIServiceConditionTrue(service, "Available")) {
				err = fmt.Errorf("it is %v, %v", service.Spec.Service, service.Status)
			}
			return err
		})
	}
	return c
}

func (c *cluster) flunders(t *testing.T, config *rest.Config, gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return client.Resource(gvr).Namespace(c.namespace)
}

func flunder(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": beta.GroupVersion().String(), "kind": "Flunder", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"flunderReference": "other", "referenceType": "Flunder"},
	}}
}

func (c *cluster) isWhole(t *testing.T) {
	client := traffic.NewClient(t, c.Admin(), 1)
	for _, path := range []string{"/openapi/v3/apis/wardle.example.com/v1beta1", "/apis/wardle.example.com/v1beta1", "/readyz/wardle-available"} {
		client.Await(t, "the aggregator knows the service", path, http.StatusOK)
	}
	flunders := c.flunders(t, c.Admin(), beta)
	events, err := flunders.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer events.Stop()
	_, err = flunders.Create(t.Context(), flunder("one"), metav1.CreateOptions{})
	require.NoError(t, err)
	event, open := <-events.ResultChan()
	require.True(t, open, "the watch ends")
	assert.Equal(t, watch.Added, event.Type)
	old, err := c.flunders(t, c.Admin(), alpha).Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
	reference, _, _ := unstructured.NestedString(old.Object, "spec", "reference")
	assert.Equal(t, "other", reference, "in the other version")
}

func (c *cluster) obeysPolicy(t *testing.T) {
	config, err := c.UserConfig("jane")
	require.NoError(t, err)
	jane, asJane := c.flunders(t, config, beta), c.Admin()
	asJane.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	impersonated := c.flunders(t, asJane, beta)
	everybody := map[string]dynamic.ResourceInterface{"jane": jane, "as jane": impersonated}
	allowed := func(want bool) {
		t.Helper()
		for name, flunders := range everybody {
			framework.Eventually(t, fmt.Sprintf("%s may list: %t", name, want), func(ctx context.Context) error {
				if _, err := flunders.List(ctx, metav1.ListOptions{}); (err == nil) != want || err != nil && !apierrors.IsForbidden(err) {
					return fmt.Errorf("error %w", err)
				}
				return nil
			})
		}
	}
	_, err = jane.List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "error %v", err)
	allowed(false)
	admin, err := kubernetes.NewForConfig(c.Admin())
	require.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings(c.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	allowed(true)
	require.NoError(t, admin.RbacV1().RoleBindings(c.namespace).Delete(t.Context(), "jane", metav1.DeleteOptions{}))
	allowed(false)
}

func (c *cluster) losesNothing(t *testing.T) {
	client := traffic.NewClient(t, c.Admin(), 2)
	path := "/apis/wardle.example.com/v1beta1/namespaces/" + c.namespace + "/flunders"
	list := func(ctx context.Context) error {
		answer, err := client.Send(ctx, http.MethodGet, path, nil)
		if err == nil {
			err = answer.Expect(http.StatusOK)
		}
		return err
	}
	leaving := c.Replica("wardle-1")
	before := c.answers(t, leaving)
	framework.Eventually(t, "both replicas serve, and the one that stops has answered", func(ctx context.Context) error {
		if err := list(ctx); err != nil {
			return err
		}
		serving, err := c.Metric(ctx, "aggregator-0", "tripod_backend_endpoints", "backend=wardle", "state=serving")
		if answered := c.answers(t, leaving) - before; err == nil && (serving != 2 || answered == 0) {
			err = fmt.Errorf("%v replicas serve, and %s has answered %v requests", serving, leaving.Name, answered)
		}
		return err
	})
	stopped := make(chan error, 1)
	go func() { stopped <- leaving.Stop() }()
	for requests := 0; ; requests++ {
		require.NoError(t, list(t.Context()), "after %d requests", requests)
		select {
		case err := <-stopped:
			require.NoError(t, err)
			t.Log(requests, " requests")
			return
		default:
		}
	}
}

// answers returns how many requests a replica has answered.
func (c *cluster) answers(t *testing.T, r *framework.Replica) float64 {
	t.Helper()
	answers, err := c.Metric(t.Context(), "aggregator-0", "tripod_backend_requests_total", "endpoint="+strings.TrimPrefix(r.URL, "https://"), "code=2xx")
	require.NoError(t, err)
	return answers
}
