// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// kinds are those in testdata/objects.yaml, with the letters that stand for them in testdata/requests.txt.
var kinds = map[string]streams.Kind{
	"D": {GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Name: "Deployment", Namespaced: true},
	"R": {GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, Name: "ReplicaSet", Namespaced: true},
	"P": {GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "Pod", Namespaced: true},
	"N": {GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Name: "Node"},
	"W": {GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, Name: "Widget", Namespaced: true},
}

// given is an object of testdata/objects.yaml.
type given struct {
	Cluster, Kind, Namespace, Name, UID, Owner string
	Created                                    metav1.Time
	Labels, Annotations                        map[string]string
	Spec, Status                               map[string]any
}

func (g *given) change(t *testing.T, kind streams.Kind, version int) store.Change {
	t.Helper()
	annotations := map[string]string{v1beta1.ClusterAnnotation: g.Cluster}
	for name, value := range g.Annotations {
		annotations[name] = value
	}
	metadata := map[string]any{
		"name": g.Name, "namespace": g.Namespace, "uid": g.UID, "creationTimestamp": g.Created.UTC().Format(time.RFC3339), "labels": g.Labels, "annotations": annotations,
	}
	var owners []string
	if g.Owner != "" {
		owners = []string{g.Owner}
		metadata["ownerReferences"] = []any{map[string]any{"uid": g.Owner}}
	}
	apiVersion, name := kind.GroupVersionKind().ToAPIVersionAndKind()
	text, err := json.Marshal(map[string]any{"apiVersion": apiVersion, "kind": name, "metadata": metadata, "spec": g.Spec, "status": g.Status})
	require.NoError(t, err)
	return store.Change{Object: store.Object{
		Namespace: g.Namespace, Name: g.Name, UID: g.UID, ResourceVersion: fmt.Sprint(version), CreatedAt: g.Created.Unix(), Labels: g.Labels, Owners: owners, JSON: text,
	}}
}

// fill writes the objects of testdata/objects.yaml.
func fill(t *testing.T, s *store.Store) {
	t.Helper()
	data, err := os.ReadFile("testdata/objects.yaml")
	require.NoError(t, err)
	var all []given
	require.NoError(t, yaml.UnmarshalStrict(data, &all))
	for _, cluster := range []string{"alpha", "beta", "gamma"} {
		for _, kind := range kinds {
			var batch store.Batch
			for i := range all {
				if all[i].Cluster == cluster && all[i].Kind == kind.Name {
					batch.Changes = append(batch.Changes, all[i].change(t, kind, i+1))
				}
			}
			if len(batch.Changes) == 0 {
				continue
			}
			batch.Listing = 1
			stream, err := s.OpenStream(t.Context(), cluster, kind)
			require.NoError(t, err)
			require.NoError(t, s.Write(t.Context(), stream, batch))
			require.NoError(t, s.Sweep(t.Context(), stream, 1, "1"))
		}
	}
}

var short = regexp.MustCompile(`^(?:(\w+):)?([DRPNW])(\?.*)?$`)

// requestOf returns what a line of testdata/requests.txt asks for: a path and its parameters.
func requestOf(line string) (path string, values url.Values) {
	if parts := short.FindStringSubmatch(line); parts != nil {
		cluster := ""
		if parts[1] != "" {
			cluster = "clusters/" + parts[1] + "/"
		}
		line = "resources/" + cluster + pathOf(kinds[parts[2]]) + parts[3]
	}
	path, parameters, _ := strings.Cut(line, "?")
	values = url.Values{}
	for parameter := range strings.SplitSeq(parameters, "&") {
		if name, value, found := strings.Cut(parameter, "="); found {
			value = strings.NewReplacer("~", "search.clusterpedia.io/", "^", "internalstorage.clusterpedia.io/").Replace(value)
			values.Add(name, value)
		}
	}
	return path, values
}

// listed is what answers are compared by.
func listed(items []metav1.PartialObjectMetadata, continued string, remaining *int64, cut, withCounts bool) string {
	var names []string
	for _, item := range items {
		name := item.Annotations[v1beta1.ClusterAnnotation] + "/" + item.Name
		if item.Namespace != "" {
			name = item.Annotations[v1beta1.ClusterAnnotation] + "/" + item.Namespace + "/" + item.Name
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		names = []string{"-"}
	}
	text := strings.Join(names, " ")
	if !withCounts {
		return text
	}
	text += " |"
	if remaining != nil {
		text += fmt.Sprintf(" remaining=%d", *remaining)
	}
	if continued != "" {
		text += " continue=" + continued
	}
	if cut {
		text += " cut"
	}
	return text
}

// answerOf sends a request, and returns the answer as testdata/requests.txt has it.
func answerOf(t *testing.T, s *store.Store, path string, values url.Values, withCounts bool) string {
	t.Helper()
	if name, isCollection := strings.CutPrefix(path, "collectionresources/"); isCollection {
		collection, err := collectionOf(t, NewHandler(s, nil, nil), name, values.Encode())
		if err != nil {
			status := err.(apierrors.APIStatus).Status()
			return fmt.Sprintf("%d %s", status.Code, status.Message)
		}
		items := make([]metav1.PartialObjectMetadata, len(collection.Items))
		for i := range items {
			require.NoError(t, json.Unmarshal(collection.Items[i].Raw, &items[i]))
		}
		return listed(items, collection.Continue, collection.RemainingItemCount, false, withCounts)
	}
	answer, warnings := ask(t, NewHandler(s, nil, http.NotFoundHandler()), http.MethodGet, path+"?"+values.Encode(), "")
	if answer.Code != http.StatusOK {
		var status metav1.Status
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &status), "%s", answer.Body)
		assert.EqualValues(t, answer.Code, status.Code)
		return fmt.Sprintf("%d %s", status.Code, status.Message)
	}
	var list metav1.PartialObjectMetadataList
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &list), "%s", answer.Body)
	if !strings.HasSuffix(list.Kind, "List") {
		var one metav1.PartialObjectMetadata
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &one))
		list.Items = []metav1.PartialObjectMetadata{one}
	}
	return listed(list.Items, list.Continue, list.RemainingItemCount, strings.Contains(strings.Join(warnings, " "), "has cut the list"), withCounts)
}

// withNumber returns an answer with Clusterpedia's number in place of the token of the next page, if both lead to the same page.
func withNumber(t *testing.T, s *store.Store, path string, values url.Values, got, want string) string {
	t.Helper()
	_, token, continued := strings.Cut(got, " continue=")
	_, number, wanted := strings.Cut(want, " continue=")
	if !continued || !wanted {
		return got
	}
	next := func(from string) string {
		values := maps.Clone(values)
		values.Set("continue", from)
		return answerOf(t, s, path, values, true)
	}
	assert.Equal(t, next(number), next(token), "%s?%s", path, values.Encode())
	return strings.Replace(got, token, number, 1)
}

func TestRequestsAreAnsweredAsClusterpediaDocumentsThem(t *testing.T) {
	databases, err := storetest.Start()
	require.NoError(t, err)
	defer databases.Stop()
	text, err := os.ReadFile("testdata/requests.txt")
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\n"); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	require.Zero(t, len(lines)%2, "each request has an answer")
	require.Greater(t, len(lines), 400, "200 requests and more")
	databases.Each(t, func(t *testing.T, location string) {
		s, err := store.Open(location)
		require.NoError(t, err)
		defer s.Close()
		require.NoError(t, s.Migrate(t.Context()))
		fill(t, s)
		for i := 0; i < len(lines); i += 2 {
			path, values := requestOf(lines[i])
			want := lines[i+1]
			got := answerOf(t, s, path, values, strings.Contains(want, " |"))
			if code, message, _ := strings.Cut(want, " "); len(code) == 3 && code >= "400" && code < "600" {
				assert.True(t, strings.HasPrefix(got, code) && strings.Contains(got, message), "%s\ngot  %s\nwant %s", lines[i], got, want)
				continue
			}
			got = withNumber(t, s, path, values, got, want)
			assert.Equal(t, want, got, lines[i])
		}
	})
}
