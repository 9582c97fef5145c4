// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/tripod-k8s/tripod/apiservice/storages/memory"
	"github.com/tripod-k8s/tripod/base/migration"
)

// deployments are a resource in memory, with a rule of its author.
func deployments() Objects[*appsv1.Deployment] {
	return Objects[*appsv1.Deployment]{
		Name: "deployments", Status: true, Storage: memory.Open,
		Validate: func(_ context.Context, d *appsv1.Deployment) field.ErrorList {
			if d.Spec.Replicas != nil && *d.Spec.Replicas > 9 {
				return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), *d.Spec.Replicas, "must be less than 10")}
			}
			return nil
		},
	}
}

// newMigrations returns what answers for a resource.
func newMigrations(t *testing.T) *migrations {
	t.Helper()
	g := apps
	g.Resources = []Resource{deployments()}
	types, err := newTestTypes(t, g)
	require.NoError(t, err)
	types.definitions = func() map[string]common.OpenAPIDefinition { return nil }
	by, err := deployments().storages(&Environment{types: types}, g, nil)
	require.NoError(t, err)
	t.Cleanup(by["deployments"].Destroy)
	m := &migrations{codecs: types.codecs, maxBytes: 1 << 20, movable: map[schema.GroupResource]*movable{}}
	require.NoError(t, m.add(types, g, by, "deployments", []schema.GroupVersion{{Group: "apps", Version: "v1"}}))
	return m
}

// ask sends a request, and decodes its answer.
func ask(t *testing.T, m *migrations, method, path string, body, answer any) *metav1.Status {
	t.Helper()
	sent, ok := body.([]byte)
	if !ok {
		var err error
		sent, err = json.Marshal(body)
		require.NoError(t, err)
	}
	w := httptest.NewRecorder()
	migration.Handler(m.codecs, m.answer).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(sent)))
	if w.Code != http.StatusOK {
		status := &metav1.Status{}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), status), w.Body)
		require.EqualValues(t, w.Code, status.Code)
		return status
	}
	if answer != nil {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), answer), w.Body)
	}
	return nil
}

const ofDeployments = "/migration/apps/deployments"

// aDeployment is as a custom resource of that kind: being deleted, with a status, finalizers and managed fields. more is in its spec.
func aDeployment(name, uid, more string) []byte {
	return fmt.Appendf(nil, `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": %q, "namespace": "default", "uid": %q,
"resourceVersion": "77", "generation": 7, "creationTimestamp": "2020-01-02T03:04:05Z", "deletionTimestamp": "2021-01-02T03:04:05Z",
"deletionGracePeriodSeconds": 0, "finalizers": ["example.com/hold"], "labels": {"l": "1"}, "annotations": {"a": "2"},
"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "o", "controller": true, "blockOwnerDeletion": true}],
"managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "apps/v1", "time": "2020-01-02T03:04:05Z", "fieldsType": "FieldsV1",
"fieldsV1": {"f:spec": {"f:paused": {}}}, "subresource": "status"}]},
"spec": {%s"selector": {}, "template": {"spec": {"containers": null}}}, "status": {"readyReplicas": 3}}`, name, uid, more)
}

// all returns the objects that the service has, without their resourceVersions.
func all(t *testing.T, m *migrations) map[string]map[string]any {
	t.Helper()
	objects, page := map[string]map[string]any{}, migration.Page{}
	for first := true; first || page.Continue != ""; first = false {
		path := ofDeployments + "?version=v1&limit=2&continue=" + page.Continue
		page = migration.Page{}
		require.Nil(t, ask(t, m, http.MethodGet, path, nil, &page))
		for _, data := range page.Objects {
			object := map[string]any{}
			require.NoError(t, json.Unmarshal(data, &object))
			read := &unstructured.Unstructured{Object: object}
			require.NotEmpty(t, read.GetResourceVersion())
			objects[read.GetName()] = object
		}
	}
	return objects
}

func batch(move string, objects ...[]byte) migration.Batch {
	b := migration.Batch{Move: move}
	for _, object := range objects {
		b.Objects = append(b.Objects, object)
	}
	return b
}

func TestAMovedObjectIsAsItWas(t *testing.T) {
	m := newMigrations(t)
	require.Nil(t, ask(t, m, http.MethodPut, ofDeployments, migration.Gate{To: "m"}, nil))
	var taken migration.Taken
	given := batch("m", aDeployment("a", "1", ""), aDeployment("b", "2", `"paused": true, `), aDeployment("c", "3", ""))
	for range 2 { // the second time changes nothing
		require.Nil(t, ask(t, m, http.MethodPost, ofDeployments, given, &taken))
		assert.Equal(t, migration.Taken{Objects: 3}, taken)
	}
	stored := all(t, m)
	require.Len(t, stored, 3)
	for _, data := range given.Objects {
		var object map[string]any
		require.NoError(t, json.Unmarshal(data, &object))
		name := (&unstructured.Unstructured{Object: object}).GetName()
		assert.Nil(t, migration.FirstDifference(object, stored[name]), name)
	}

	given = batch("m", aDeployment("a", "4", ""))
	given.Gone = []migration.Gone{
		{Namespace: "default", Name: "b", UID: "2"}, {Namespace: "default", Name: "c", UID: "of another"}, {Namespace: "default", Name: "none", UID: "5"},
	}
	require.Nil(t, ask(t, m, http.MethodPost, ofDeployments, given, nil))
	stored = all(t, m)
	require.Len(t, stored, 2, "only the object with the UID is gone")
	assert.Equal(t, "4", stored["a"]["metadata"].(map[string]any)["uid"], "a later object has the name")

	var group migration.Group
	require.Nil(t, ask(t, m, http.MethodGet, "/migration/apps", nil, &group))
	assert.Equal(t, []migration.Resource{
		{Name: "deployments", Kind: "Deployment", Namespaced: true, Versions: []string{"v1"}, Status: true, Move: "m"},
	}, group.Resources)
}

func TestOnlyTheMoveThatHasClosedTheGateBringsObjects(t *testing.T) {
	m := newMigrations(t)
	refused := func(move string) {
		t.Helper()
		status := ask(t, m, http.MethodPost, ofDeployments, batch(move, aDeployment("a", "1", "")), nil)
		require.NotNil(t, status)
		assert.Equal(t, metav1.StatusReasonConflict, status.Reason, status.Message)
		assert.Empty(t, all(t, m))
	}
	refused("m")
	require.Nil(t, ask(t, m, http.MethodPut, ofDeployments, migration.Gate{To: "other"}, nil))
	refused("m")
	status := ask(t, m, http.MethodPut, ofDeployments, migration.Gate{To: "m"}, nil)
	require.NotNil(t, status, "two moves have the gate")
	require.Nil(t, ask(t, m, http.MethodPut, ofDeployments, migration.Gate{From: "other"}, nil))
	refused("m")
	dry := batch("", aDeployment("a", "1", ""))
	dry.DryRun = true
	var taken migration.Taken
	require.Nil(t, ask(t, m, http.MethodPost, ofDeployments, dry, &taken), "a dry run needs no gate")
	assert.Equal(t, 1, taken.Objects)
	assert.Empty(t, all(t, m), "a dry run writes nothing")
}

func TestWhatWouldNotBeTheSameIsRefused(t *testing.T) {
	m := newMigrations(t)
	require.Nil(t, ask(t, m, http.MethodPut, ofDeployments, migration.Gate{To: "m"}, nil))
	replace := func(old, by string) []byte {
		return []byte(strings.Replace(string(aDeployment("a", "1", "")), old, by, 1))
	}
	for name, test := range map[string]struct {
		object []byte
		wrong  string
	}{
		"a field that is lost":    {aDeployment("a", "1", `"colour": "red", `), "deployments.apps default/a: spec.colour would be lost"},
		"a field of another type": {aDeployment("a", "1", `"paused": "yes", `), "deployments.apps default/a: cannot be decoded"},
		"a time that changes":     {replace("2020-01-02T03:04:05Z", "2020-01-02T03:04:05.000Z"), "metadata.creationTimestamp would change"},
		"what the author forbids": {aDeployment("a", "1", `"replicas": 10, `), "deployments.apps default/a: spec.replicas: Invalid value: 10: must be less than 10"},
		"no UID":                  {replace(`"uid": "1",`, ``), "metadata.uid: Required value"},
		"no namespace":            {replace(`"namespace": "default",`, ``), "metadata.namespace: Required value"},
		"another kind":            {replace(`"Deployment"`, `"ReplicaSet"`), `default/a is a ReplicaSet of "apps/v1", and no Deployment of apps`},
		"another group":           {replace(`"apps/v1"`, `"batch/v1"`), `default/a is a Deployment of "batch/v1", and no Deployment of apps`},
		"another version":         {replace(`"apps/v1"`, `"apps/v1beta1"`), `deployments.apps is served in v1, and not in "v1beta1"`},
		"no object":               {[]byte(`[]`), "an object of the batch is no JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			status := ask(t, m, http.MethodPost, ofDeployments, batch("m", test.object), nil)
			require.NotNil(t, status, "it is accepted")
			assert.Contains(t, status.Message, test.wrong)
			assert.Less(t, status.Code, int32(500))
		})
	}
	assert.Empty(t, all(t, m))
}

func TestRequestsOfMovesAreBounded(t *testing.T) {
	m := newMigrations(t)
	many := batch("m")
	for range migration.MaxObjects + 1 {
		many.Objects = append(many.Objects, []byte("{}"))
	}
	for name, test := range map[string]struct {
		method, path string
		body         any
		code         int32
	}{
		"too many objects":     {http.MethodPost, ofDeployments, many, http.StatusBadRequest},
		"too many bytes":       {http.MethodPost, ofDeployments, []byte(`"` + strings.Repeat("x", 1<<20) + `"`), http.StatusRequestEntityTooLarge},
		"an unknown field":     {http.MethodPost, ofDeployments, []byte(`{"mvoe": "m"}`), http.StatusBadRequest},
		"no move":              {http.MethodPost, ofDeployments, batch("", aDeployment("a", "1", "")), http.StatusBadRequest},
		"no name of a move":    {http.MethodPut, ofDeployments, migration.Gate{To: "A B"}, http.StatusBadRequest},
		"another group":        {http.MethodGet, "/migration/batch", nil, http.StatusNotFound},
		"a part of a group":    {http.MethodGet, "/migration/app", nil, http.StatusNotFound},
		"another resource":     {http.MethodPost, "/migration/apps/jobs", batch("m"), http.StatusNotFound},
		"a subresource":        {http.MethodPost, "/migration/apps/deployments/status", batch("m"), http.StatusNotFound},
		"no version":           {http.MethodGet, ofDeployments, nil, http.StatusBadRequest},
		"another version":      {http.MethodGet, ofDeployments + "?version=v2", nil, http.StatusBadRequest},
		"a page of nothing":    {http.MethodGet, ofDeployments + "?version=v1&limit=0", nil, http.StatusBadRequest},
		"a page of all":        {http.MethodGet, ofDeployments + "?version=v1&limit=501", nil, http.StatusBadRequest},
		"another verb":         {http.MethodDelete, ofDeployments, nil, http.StatusMethodNotAllowed},
		"a write of the group": {http.MethodPost, "/migration/apps", batch("m"), http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			status := ask(t, m, test.method, test.path, test.body, nil)
			require.NotNil(t, status)
			assert.Equal(t, test.code, status.Code, status.Message)
		})
	}
}
