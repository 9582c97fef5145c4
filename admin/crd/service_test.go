// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"
)

const definitions = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinitionList", "metadata": {}, "items": [
{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "books.example.com"}, "spec": {
"group": "example.com", "scope": "Namespaced", "names": {"plural": "books", "kind": "Book"},
"versions": [{"name": "v1", "served": true, "storage": true}]}}]}`

func TestAServiceThatDoesNotAnswerIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		code  int
		wrong string
	}{
		"no such service":             {http.StatusBadRequest, `there is no API service "books"`},
		"no right":                    {http.StatusForbidden, "you need the right for the nonResourceURLs /migration/example.com and /migration/example.com/*"},
		"no such group":               {http.StatusNotFound, `the service books does not serve the group "example.com"`},
		"a service that is not ready": {http.StatusServiceUnavailable, "the service books does not answer, is it ready?"},
		"an answer of no service":     {http.StatusOK, "the service books does not answer, is it ready?"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if strings.HasPrefix(req.URL.Path, "/apis/apiextensions.k8s.io/v1/") {
					_, _ = w.Write([]byte(definitions))
					return
				}
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte("[]"))
			}))
			defer server.Close()
			_, err := Check(t.Context(), Options{
				Config: &rest.Config{Host: server.URL}, Group: "example.com", Service: "books", Progress: func(string) {},
			})
			require.ErrorContains(t, err, test.wrong)
		})
	}
}
