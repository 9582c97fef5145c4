// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// stateOf returns an object with the annotations of search.
func stateOf(kind, name, revision, changedAt, content string) string {
	return fmt.Sprintf(`{"apiVersion": "apps/v1", "kind": %q, "metadata": {"namespace": "shop", "name": %q, "resourceVersion": %q, "generation": %s, "annotations": {
"shadow.clusterpedia.io/cluster-name": "east", "shadow.clusterpedia.io/resource-version": %q, "shadow.clusterpedia.io/changed-at": %q}}, %s}`,
		kind, name, revision, revision, revision, changedAt, content)
}

const (
	first, second, third = "2026-11-25T04:00:01.000Z", "2026-11-25T04:00:02.000Z", "2026-11-25T04:00:03.000Z"
	from, to             = "10", "20"
)

// objects are the pages of each list, by the moment and the token.
var objects = map[string][]string{
	from:           {stateOf("Deployment", "front", "5", second, `"spec": {"replicas": 1, "args": ["a", "b"], "old": {"x.y/z": 1}}`)},
	from + " next": {stateOf("ReplicaSet", "gone", "6", third, `"spec": {}`), stateOf("ReplicaSet", "touched", "7", third, `"spec": {}`)},
	to: {
		stateOf("Deployment", "front", "15", second, `"spec": {"replicas": 2, "args": ["a", "c"], "old": {}, "new": true}`), stateOf("ReplicaSet", "new", "16", first, `"spec": {}`),
		stateOf("ReplicaSet", "touched", "17", third, `"spec": {}`),
	},
}

// searching returns a client of a server with these objects, and the parameters that it was sent.
func searching(t *testing.T) (client rest.Interface, asked func() []string) {
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		assert.Equal(t, collection, req.URL.Path)
		values := req.URL.Query()
		all = append(all, values.Encode())
		answer := map[string]any{"metadata": map[string]any{"resourceVersion": map[string]string{"1h": from, "now": to}[values.Get("at")]}}
		if values.Has("differsFrom") {
			items := []json.RawMessage{}
			for _, item := range objects[strings.TrimSpace(values.Get("at")+" "+values.Get("continue"))] {
				items = append(items, json.RawMessage(item))
			}
			if answer["items"] = items; values.Get("at") == from && !values.Has("continue") {
				answer["continue"] = "next"
			}
		}
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(server.Close)
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	return clients.RESTClient(), func() []string { return all }
}

func TestWhatHasChanged(t *testing.T) {
	client, asked := searching(t)
	answer, err := Question{From: "1h", To: "now", Namespace: "shop"}.Ask(t.Context(), client)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"at=1h&groups=%2A&limit=1&onlyMetadata=true&withRemainingCount=false",
		"at=now&groups=%2A&limit=1&onlyMetadata=true&withRemainingCount=false",
		"at=10&differsFrom=20&groups=%2A&limit=500&namespaces=shop&withContinue=true&withRemainingCount=false",
		"at=10&continue=next&differsFrom=20&groups=%2A&limit=500&namespaces=shop&withContinue=true&withRemainingCount=false",
		"at=20&differsFrom=10&groups=%2A&limit=500&namespaces=shop&withContinue=true&withRemainingCount=false",
	}, asked())
	require.Len(t, answer.Changes, 3)

	var out strings.Builder
	now, err := time.Parse(time.RFC3339, third)
	require.NoError(t, err)
	require.NoError(t, answer.Summary(&out, now))
	assert.Equal(t, `LAST CHANGE   CLUSTER   NAMESPACE   OBJECT                  CHANGE
2s            east      shop        replicaset.apps/new     added
1s            east      shop        deployment.apps/front   changed: spec.args[1], spec.new, spec.old['x.y/z'] and 1 more
0s            east      shop        replicaset.apps/gone    deleted
`, out.String())

	out.Reset()
	require.NoError(t, answer.Unified(&out))
	assert.Equal(t, `--- /dev/null
+++ east/shop/replicaset.apps/new
@@ -0,0 +1,6 @@
+apiVersion: apps/v1
+kind: ReplicaSet
+metadata:
+  name: new
+  namespace: shop
+spec: {}
--- east/shop/deployment.apps/front
+++ east/shop/deployment.apps/front
@@ -6,7 +6,7 @@
 spec:
   args:
   - a
-  - b
-  old:
-    x.y/z: 1
-  replicas: 1
+  - c
+  new: true
+  old: {}
+  replicas: 2
--- east/shop/replicaset.apps/gone
+++ /dev/null
@@ -1,6 +0,0 @@
-apiVersion: apps/v1
-kind: ReplicaSet
-metadata:
-  name: gone
-  namespace: shop
-spec: {}
`, out.String())

	out.Reset()
	require.NoError(t, answer.JSON(&out))
	var read Answer
	require.NoError(t, json.Unmarshal([]byte(out.String()), &read))
	assert.Equal(t, answer, &read)
}

func TestQuestionsAboutOwners(t *testing.T) {
	deployments, pods := schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Resource: "pods"}
	owned := Question{Owner: "web", OwnerResource: deployments, Generations: 2, Cluster: "east", Labels: "a=b", Fields: "c=d"}
	encoded := func(q Question) (all []string) {
		for _, values := range q.parameters() {
			all = append(all, values.Encode())
		}
		return all
	}
	const common = "clusters=east&fieldSelector=c%3Dd&"
	assert.Equal(t, []string{
		common + "labelSelector=a%3Db&names=web&resources=apps%2Fdeployments",
		common + "groups=%2A&labelSelector=a%3Db&ownerGR=deployments.apps&ownerName=web&ownerSeniority=0",
		common + "groups=%2A&labelSelector=a%3Db&ownerGR=deployments.apps&ownerName=web&ownerSeniority=1",
	}, encoded(owned))
	owned.Resources = []schema.GroupResource{pods}
	assert.True(t, slices.IndexFunc(encoded(owned), func(text string) bool { return strings.Contains(text, "names=") }) < 0, "the owner is no pod")
	assert.Contains(t, encoded(owned)[0], "resources=%2Fpods")
}

func TestNothingHasChanged(t *testing.T) {
	var out strings.Builder
	require.NoError(t, (&Answer{}).Summary(&out, time.Now()))
	assert.Equal(t, "Nothing has changed.\n", out.String())
}

func TestErrorsOfSearchAreShown(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "the history begins today"}
		if strings.HasPrefix(req.URL.Path, clusters) {
			status.Code, status.Reason = http.StatusNotFound, metav1.StatusReasonNotFound
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Code))
		assert.NoError(t, json.NewEncoder(w).Encode(status))
	}))
	defer server.Close()
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	_, err = Question{From: "1h", To: "now"}.Ask(t.Context(), clients.RESTClient())
	assert.EqualError(t, err, "search: the history begins today")
	_, err = Question{From: "1h", To: "now", Cluster: "west"}.Ask(t.Context(), clients.RESTClient())
	assert.EqualError(t, err, "search has no cluster west: see tripod search clusters list")
}
