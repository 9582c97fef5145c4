// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// newCheck returns a check of an API that does what a request asks, except where a test changes that.
func newCheck(out *strings.Builder) (*Check, *dynamicfake.FakeDynamicClient) {
	c := &Check{Namespace: "default", Name: "tripod-check-x", Report: into(out)}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "configmaps"}:                "ConfigMapList",
		{Group: c.group(), Version: version, Resource: plural}: kind + "List",
		definitions: "CustomResourceDefinitionList",
	})
	c.Client = client
	client.PrependWatchReactor("customresourcedefinitions", func(clienttesting.Action) (bool, watch.Interface, error) {
		established := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"conditions": []any{map[string]any{"type": "Established", "status": "True"}},
		}}}
		events := watch.NewFakeWithChanSize(2, false)
		events.Modify(&unstructured.Unstructured{Object: map[string]any{}})
		events.Modify(established)
		return true, events, nil
	})
	return c, client
}

// into returns a function that writes a line for each step.
func into(out *strings.Builder) func(Step) {
	return func(s Step) { fmt.Fprintf(out, "%-9s %s\n", s.Done, s.What) }
}

// left returns what is there after a check.
func left(t *testing.T, c *Check) int {
	t.Helper()
	count := 0
	for _, resource := range []schema.GroupVersionResource{c.configMap().resource, c.customResource().resource, definitions} {
		list, err := c.Client.Resource(resource).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		count += len(list.Items)
	}
	return count
}

func TestDifferencesOfServicesAreNoErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		code int
		err  error
		want string
	}{
		"that differ":       {code: http.StatusInternalServerError, want: "warning   same-settings: core differs\nwarning   same-configuration: core differs\n"},
		"that are alike":    {code: http.StatusOK},
		"of kube-apiserver": {code: http.StatusNotFound},
		"not to be asked":   {code: http.StatusForbidden},
		"that are away":     {err: errors.New("away")},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			c, _ := newCheck(&out)
			c.Health = func(_ context.Context, path string) (int, string, error) {
				if path == "/version" {
					return http.StatusForbidden, "", nil
				}
				assert.Regexp(t, "^/readyz/same-(settings|configuration)$", path)
				return tc.code, "internal server error: core differs\n", tc.err
			}
			require.NoError(t, c.Run(t.Context()))
			_, warnings, _ := strings.Cut(out.String(), "deleted   CustomResourceDefinition checks.tripod-check-x.tripod-k8s.io\n")
			assert.Equal(t, tc.want, warnings)
		})
	}
}

func TestKubeletsThatDoNotFitAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		version  string
		kubelets []string
		want     string
		fails    bool
	}{
		"those that fit":   {version: `{"gitVersion": "v1.37.2"}`, kubelets: []string{"v1.34.4", "v1.37.9", ""}},
		"a newer one":      {version: `{"gitVersion": "v1.37.2"}`, kubelets: []string{"v1.38.0-alpha.0"}, want: "kubelets of 1.38 (1, one is node-0), and this API server works with 1.34 to 1.37", fails: true},
		"older ones":       {version: `{"gitVersion": "v1.37.2"}`, kubelets: []string{"v1.33.1", "v1.33.2"}, want: "kubelets of 1.33 (2, one is node-1), and this API server works with 1.34 to 1.37"},
		"what it emulates": {version: `{"gitVersion": "v1.37.2", "emulationMajor": "1", "emulationMinor": "36"}`, kubelets: []string{"v1.37.2"}, want: "kubelets of 1.37 (1, one is node-0), and this API server works with 1.33 to 1.36", fails: true},
		"no version":       {version: "what?", kubelets: []string{"v1.99.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			c := &Check{Report: into(&out), Health: func(_ context.Context, path string) (int, string, error) {
				if path != "/version" {
					return http.StatusNotFound, "", nil
				}
				return http.StatusOK, tc.version, nil
			}}
			var nodes []runtime.Object
			for i, kubelet := range tc.kubelets {
				nodes = append(nodes, &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": fmt.Sprintf("node-%d", i)},
					"status": map[string]any{"nodeInfo": map[string]any{"kubeletVersion": kubelet}},
				}})
			}
			c.Client = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{{Version: "v1", Resource: "nodes"}: "NodeList"}, nodes...)
			err := c.checkKubelets(t.Context())
			if tc.fails {
				require.EqualError(t, err, "nodes have "+tc.want)
				tc.want = ""
			} else {
				require.NoError(t, err)
			}
			if tc.want != "" {
				tc.want = "warning   nodes have " + tc.want + "\n"
			}
			assert.Equal(t, tc.want, out.String())
		})
	}
}

func TestCheckOfAWorkingAPI(t *testing.T) {
	var out strings.Builder
	c, _ := newCheck(&out)
	require.NoError(t, c.Run(t.Context()))
	const want = `created   ConfigMap default/tripod-check-x
read      ConfigMap default/tripod-check-x
changed   ConfigMap default/tripod-check-x
deleted   ConfigMap default/tripod-check-x
watched   ConfigMap default/tripod-check-x
defined   CustomResourceDefinition checks.tripod-check-x.tripod-k8s.io
created   Check default/tripod-check-x
read      Check default/tripod-check-x
changed   Check default/tripod-check-x
deleted   Check default/tripod-check-x
watched   Check default/tripod-check-x
deleted   CustomResourceDefinition checks.tripod-check-x.tripod-k8s.io
`
	assert.Equal(t, want, out.String())
	if count := left(t, c); count != 0 {
		t.Errorf("%d objects are left", count)
	}
}

func TestCheckOfABrokenAPI(t *testing.T) {
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("it is broken") }
	for name, test := range map[string]struct {
		verb, resource string
		reaction       clienttesting.ReactionFunc
		want           string
	}{
		"core away":                  {"create", "configmaps", refuse, "cannot create ConfigMap default/tripod-check-x: it is broken"},
		"extensions away":            {"create", "customresourcedefinitions", refuse, "cannot create CustomResourceDefinition"},
		"custom resource not served": {"create", plural, refuse, "cannot create Check default/tripod-check-x: it is broken"},
		"custom resource not read":   {"get", plural, refuse, "cannot read Check"},
		"no lists":                   {"list", "configmaps", refuse, "cannot list ConfigMap"},
		"changes are refused":        {"update", plural, refuse, "cannot change Check"},
		"changes are forgotten": {"update", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
			object := action.(clienttesting.UpdateAction).GetObject().DeepCopyObject().(*unstructured.Unstructured)
			return true, object, unstructured.SetNestedField(object.Object, before, "data", "value")
		}, `is not as it was changed: [data value] is "one", not "two"`},
		"reads are old": {"get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{}}}, nil
		}, `is not read as it was created: [data value] is "", not "one"`},
		"deletions are forgotten": {"delete", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, nil
		}, "no event DELETED came"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			c, client := newCheck(&out)
			broken := true
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client.PrependReactor(test.verb, test.resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
				if !broken {
					return false, nil, nil
				}
				if test.verb == "delete" {
					cancel() // what comes after it is waited for in vain
				}
				return test.reaction(action)
			})
			err := c.Run(ctx)
			assert.ErrorContains(t, err, test.want)
			broken = false
			if count := left(t, c); count != 0 && test.verb != "delete" {
				t.Errorf("%d objects are left", count)
			}
		})
	}
}
