// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestLabelsNameOnlyWhatExists(t *testing.T) {
	table := completeTable()
	v1, example := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "example.com", Version: "v1"}
	table.SetResources(Core, map[schema.GroupVersionResource]bool{v1.WithResource("pods"): true, v1.WithResource("pods/log"): true})
	table.SetResources(Extensions, map[schema.GroupVersionResource]bool{example.WithResource("things"): true})
	for path, want := range map[string][4]string{
		"/api/v1/namespaces/a/pods/b":                   {"", "v1", "pods", ""},
		"/api/v1/namespaces/a/pods/b/log":               {"", "v1", "pods", "log"},
		"/api/v1/namespaces/a/pods/b/made-up":           {},
		"/api/v1/namespaces/a/made-up":                  {},
		"/api/made-up/pods":                             {},
		"/apis/example.com/v1/things?watch=1":           {"example.com", "v1", "things", ""},
		"/apis/made-up.example.com/v1/things":           {},
		"/apis/wardle.example.com/v1/made-up/a/made-up": {"wardle.example.com", "v1", "", ""},
		"/made-up":                  {},
		"/apis/example.com/made-up": {},
		"/apis/example.com/v1/namespaces/made-up/things": {"example.com", "v1", "things", ""},
	} {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		labels, err := LabelResolver{table}.NewRequestInfo(req)
		require.NoError(t, err)
		if got := [4]string{labels.APIGroup, labels.APIVersion, labels.Resource, labels.Subresource}; got != want || labels.Path != "" {
			t.Errorf("labels of %s are %q %q, want %q", path, got, labels.Path, want)
		}
	}
}
