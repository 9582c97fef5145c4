// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeback

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const definition = `{"metadata": {"name": "boats.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
"names": {"plural": "boats", "kind": "Boat"}, "versions": [
{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
"spec": {"type": "object", "properties": {"length": {"type": "integer", "maximum": 9}, "crew": {"type": "integer", "default": 1}}}}}}}]}}`

func TestOnlyObjectsThatClientsWouldGetAreTakenBack(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, json.Unmarshal([]byte(definition), crd))
	a, err := newAcceptor(crd, "v1")
	require.NoError(t, err)
	const metadata = `"metadata": {"name": "a", "namespace": "b", "uid": "c", "creationTimestamp": "2020-01-02T03:04:05Z", "generation": 7,
"deletionTimestamp": "2020-01-02T03:04:06Z", "finalizers": ["example.com/hold"]}`
	for name, test := range map[string]struct{ object, wrong string }{
		"as it is":          {`{"apiVersion": "example.com/v1", "kind": "Boat", ` + metadata + `, "spec": {"length": 3, "crew": 2}}`, ""},
		"another version":   {`{"apiVersion": "example.com/v2", "kind": "Boat", ` + metadata + `, "spec": {"crew": 2}}`, ""},
		"an empty struct":   {`{"apiVersion": "example.com/v1", "kind": "Boat", ` + metadata + `, "spec": {"crew": 2}, "status": {}}`, ""},
		"an unknown field":  {`{"apiVersion": "example.com/v1", "kind": "Boat", ` + metadata + `, "spec": {"crew": 2, "sail": true}}`, "b/a: spec.sail would be lost"},
		"a default":         {`{"apiVersion": "example.com/v1", "kind": "Boat", ` + metadata + `, "spec": {}}`, "b/a: spec.crew would be added"},
		"an invalid object": {`{"apiVersion": "example.com/v1", "kind": "Boat", ` + metadata + `, "spec": {"crew": 2, "length": 10}}`, "spec.length"},
		"another kind":      {`{"apiVersion": "example.com/v1", "kind": "Ship", ` + metadata + `}`, "is a example.com/v1, Kind=Ship"},
		"a slash in a name": {`{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "b/a", "namespace": "b", "uid": "c",
"creationTimestamp": "2020-01-02T03:04:05Z"}, "spec": {"crew": 2}}`, "metadata.name"},
		"no namespace": {`{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a", "uid": "c",
"creationTimestamp": "2020-01-02T03:04:05Z"}, "spec": {"crew": 2}}`, "metadata.namespace"},
		"no UID": {`{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a"}}`, "keeps its UID"},
	} {
		t.Run(name, func(t *testing.T) {
			taken, err := a.accept([]byte(test.object))
			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "example.com/v1", taken.GetAPIVersion())
			assert.Equal(t, int64(7), taken.GetGeneration())
			assert.NotNil(t, taken.GetDeletionTimestamp())
			assert.NotContains(t, taken.Object, "status")
		})
	}
}
