// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// related writes a ReplicaSet of the Deployment web in west, a pod of it, a Secret and an event.
func (c *cluster) related(t *testing.T) {
	t.Helper()
	owner := func(apiVersion, kind, name string) string {
		return fmt.Sprintf(`"ownerReferences": [{"apiVersion": %q, "kind": %q, "name": %q, "uid": %q}]`, apiVersion, kind, name, name)
	}
	for _, of := range []struct{ group, resource, kind, name, metadata, content, owner string }{
		{"apps", "replicasets", "ReplicaSet", "web-rs", owner("apps/v1", "Deployment", "web"), `"spec": {}`, "web"},
		{"", "pods", "Pod", "web-rs-1", owner("apps/v1", "ReplicaSet", "web-rs"), `"spec": {"volumes": [{"secret": {"secretName": "key"}}]}`, "web-rs"},
		{"", "secrets", "Secret", "key", `"labels": {}`, `"data": {}`, ""},
	} {
		gvr := schema.GroupVersionResource{Group: of.group, Version: "v1", Resource: of.resource}
		stream, err := c.OpenStream(t.Context(), "west", streams.Kind{GroupVersionResource: gvr, Name: of.kind, Namespaced: true})
		require.NoError(t, err)
		object := store.Object{
			Namespace: "default", Name: of.name, UID: of.name, ResourceVersion: "1", CreatedAt: 1_700_000_000,
			JSON: fmt.Appendf(nil, `{"apiVersion": %q, "kind": %q, "metadata": {"name": %q, "namespace": "default", "uid": %q, %s}, %s}`, gvr.GroupVersion(), of.kind, of.name, of.name, of.metadata, of.content),
		}
		if of.owner != "" {
			object.Owners = []string{of.owner}
		}
		require.NoError(t, c.Write(t.Context(), stream, store.Batch{Changes: []store.Change{{Object: object}}}))
	}
	stream, err := c.OpenStream(t.Context(), "west", streams.InvolvedEvents)
	require.NoError(t, err)
	require.NoError(t, c.Write(t.Context(), stream, store.Batch{Changes: []store.Change{{Object: store.Object{
		Namespace: "default", Name: "said", UID: "said",
		JSON:     []byte(`{"kind": "Event", "apiVersion": "v1", "metadata": {"name": "said", "namespace": "default"}, "type": "Warning", "reason": "BackOff", "message": "no", "count": 3, "lastTimestamp": "2026-01-02T03:04:05Z", "source": {"component": "kubelet"}}`),
		Involved: &store.Involved{Kind: "Pod", Namespace: "default", Name: "web-rs-1", UID: "web-rs-1", SeenAt: 1},
	}}}}))
}

const relationsOfPod = "resources/clusters/west/api/v1/namespaces/default/pods/web-rs-1/relations"

func TestRelationsAreThoseThatTheReaderMayList(t *testing.T) {
	c := newCluster(t)
	c.related(t)
	c.allow(t, "everything", "", rule("get", "*"), rule("list", "*"))
	c.allow(t, "getter", "", rule("get", "*"))
	c.allow(t, "noSecrets", "default", rule("get", "pods"), rule("list", "replicasets"), rule("list", "deployments"))
	c.allow(t, "noReplicaSets", "", rule("get", "pods"), rule("list", "deployments"), rule("list", "secrets", "key"), rule("list", "events"))
	c.allow(t, "lister", "", rule("list", "*"))
	c.grants = []string{"granted get resources west", "granted list resources west", "half get resources west"}
	const set, deployment, secret = "Owner Outgoing 1 replicasets web-rs", "Owner Outgoing 2 deployments web", "Volume Outgoing 1 secrets key"
	for user, test := range map[string]struct {
		code   int
		want   []string
		events int
	}{
		"everything":    {200, []string{set, deployment, secret}, 1},
		"granted":       {200, []string{set, deployment, secret}, 1},
		"getter":        {200, nil, 0},
		"half":          {200, nil, 0},
		"noSecrets":     {200, []string{set, deployment}, 0},
		"noReplicaSets": {200, []string{secret}, 1}, // the Deployment is behind what the reader may not list
		"lister":        {403, nil, 0},
		"nobody":        {403, nil, 0},
	} {
		answer, warnings := c.as(t, user, relationsOfPod)
		require.Equal(t, test.code, answer.Code, "%s: %s", user, answer.Body)
		if test.code != http.StatusOK {
			continue
		}
		assert.Empty(t, warnings)
		var got v1beta1.ObjectRelations
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &got))
		var texts []string
		for _, r := range got.Relations {
			texts = append(texts, fmt.Sprint(r.Type, " ", r.Direction, " ", r.Distance, " ", r.Object.Resource, " ", r.Object.Name))
		}
		assert.Equal(t, test.want, texts, user)
		assert.Len(t, got.Events, test.events, user)
		assert.Equal(t, "Pod", got.Object.Kind)
		assert.Equal(t, "west", got.Annotations[v1beta1.ClusterAnnotation])
		assert.Equal(t, c.revision(t), got.ResourceVersion)
		assert.False(t, got.Incomplete)
		assert.Empty(t, got.LeftOff)
	}
}

func TestRelationsOfWhatTheReaderMayNotGetAreNotFound(t *testing.T) {
	c := newCluster(t)
	c.related(t)
	c.allow(t, "one", "default", rule("get", "pods", "gone"), rule("list", "*"))
	c.allow(t, "everything", "", rule("get", "*"), rule("list", "*"))
	for path, code := range map[string]int{
		relationsOfPod: 403,
		"resources/clusters/west/api/v1/namespaces/default/pods/gone/relations": 404,
		"resources/api/v1/namespaces/default/pods/web-rs-1/relations":           400,
	} {
		answer, _ := c.as(t, "one", path)
		assert.Equal(t, code, answer.Code, "%s: %s", path, answer.Body)
	}
	for path, code := range map[string]int{
		relationsOfPod + "?limit=0": 400, relationsOfPod + "?limit=101": 400, relationsOfPod + "?depth=6": 400, relationsOfPod + "?types=Owner,Friend": 400,
		relationsOfPod + "?withEvents=perhaps":                                             400,
		"resources/clusters/west/api/v1/namespaces/default/pods/none/relations":            404,
		"resources/clusters/west/apis/x.example.com/v1/namespaces/default/x/x/relations":   404,
		"resources/clusters/east/apis/apps/v1/namespaces/default/deployments/db/relations": 403,
		"resources/clusters/west/api/v1/namespaces/default/relations":                      404, // of a Namespace
		"resources/clusters/west/api/v1/nodes/n/relations":                                 200,
	} {
		answer, _ := c.as(t, "everything", path)
		assert.Equal(t, code, answer.Code, "%s: %s", path, answer.Body)
	}
	req := httptest.NewRequest(http.MethodPost, "/apis/clusterpedia.io/v1beta1/"+relationsOfPod, nil)
	answer := httptest.NewRecorder()
	c.send(t, "everything", req, answer)
	assert.Equal(t, http.StatusForbidden, answer.Code)
}

func TestRelationsAreShownAsKubectlAsks(t *testing.T) {
	c := newCluster(t)
	c.related(t)
	c.grants = []string{"admin get resources west", "admin list resources west"}
	get := func(accept, path string) (*httptest.ResponseRecorder, []string) {
		answer, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/apis/clusterpedia.io/v1beta1/"+path, nil)
		req.Header.Set("Accept", accept)
		warnings := c.send(t, "admin", req, answer)
		require.Equal(t, http.StatusOK, answer.Code, "%s", answer.Body)
		return answer, warnings
	}
	answer, warnings := get("application/json;as=Table;v=v1;g=meta.k8s.io", relationsOfPod+"?limit=2&other=x")
	assert.ElementsMatch(t, []string{"parameter other means nothing here: parameters are depth, limit, types, withEvents", "1 secrets are left off (Volume, Outgoing)"}, warnings)
	var of metav1.Table
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &of))
	require.Len(t, of.Rows, 2)
	assert.Equal(t, []any{"Owner", "Outgoing", "ReplicaSet.apps", "default", "web-rs", ""}, of.Rows[0].Cells[:6])
	assert.Equal(t, len(of.ColumnDefinitions), len(of.Rows[0].Cells))
	assert.Equal(t, []any{"Owner", "Outgoing", "Deployment.apps", "default", "web", "ReplicaSet.apps/web-rs"}, of.Rows[1].Cells[:6])

	answer, _ = get("application/yaml", relationsOfPod+"?types=Owner&depth=1&withEvents=false")
	var got v1beta1.ObjectRelations
	require.NoError(t, yaml.UnmarshalStrict(answer.Body.Bytes(), &got))
	require.Len(t, got.Relations, 1)
	assert.Equal(t, []string{"metadata.ownerReferences"}, got.Relations[0].Fields)
	assert.Empty(t, got.Events)

	answer, _ = get("application/json", relationsOfPod)
	got = v1beta1.ObjectRelations{}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &got))
	require.Len(t, got.Events, 1)
	seen := metav1.Date(2026, 1, 2, 3, 4, 5, 0, got.Events[0].LastSeen.Location())
	assert.True(t, seen.Equal(got.Events[0].LastSeen), "%v", got.Events[0].LastSeen)
	got.Events[0].LastSeen = nil
	assert.Equal(t, v1beta1.RelatedEvent{Namespace: "default", Name: "said", Type: "Warning", Reason: "BackOff", Message: "no", Count: 3, Component: "kubelet"}, got.Events[0])
	i := slices.IndexFunc(got.Relations, func(r v1beta1.Relation) bool { return r.Distance == 2 })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, "web-rs", got.Relations[i].Via.Name)
}
