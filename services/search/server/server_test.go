// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// newStore returns a store with three deployments, two pods and a node in two clusters.
func newStore(t *testing.T) *store.Store {
	t.Helper()
	return newStoreAt(t, storetest.SQLite(t))
}

func newStoreAt(t *testing.T, location string) *store.Store {
	t.Helper()
	s, err := store.Open(location)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Migrate(t.Context()))
	kind := func(group, resource, name string, namespaced bool) streams.Kind {
		return streams.Kind{
			GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Name: name, Namespaced: namespaced,
			Details: streams.Details{ShortNames: []string{resource[:2]}},
		}
	}
	for _, of := range []struct {
		cluster string
		kind    streams.Kind
		names   []string
	}{
		{"east", kind("apps", "deployments", "Deployment", true), []string{"web", "db"}},
		{"west", kind("apps", "deployments", "Deployment", true), []string{"web"}},
		{"west", kind("", "pods", "Pod", true), []string{"web-1", "web-2"}},
		{"west", kind("", "nodes", "Node", false), []string{"n"}},
	} {
		stream, err := s.OpenStream(t.Context(), of.cluster, of.kind)
		require.NoError(t, err)
		var batch store.Batch
		for i, name := range of.names {
			namespace := ""
			if of.kind.Namespaced {
				namespace = "default"
			}
			apiVersion, kind := of.kind.GroupVersionKind().ToAPIVersionAndKind()
			batch.Changes = append(batch.Changes, store.Change{Object: store.Object{
				Namespace: namespace, Name: name, UID: name, ResourceVersion: fmt.Sprint(i), Labels: map[string]string{"app": name},
				JSON: fmt.Appendf(nil, `{"apiVersion": %q, "kind": %q, "metadata": {"name": %q, "namespace": %q, "annotations": {%q: %q}}, "spec": {"x": "y"}}`,
					apiVersion, kind, name, namespace, v1beta1.ClusterAnnotation, of.cluster),
			}})
		}
		batch.Listing = 1
		require.NoError(t, s.Write(t.Context(), stream, batch))
		require.NoError(t, s.Sweep(t.Context(), stream, 1, "7"))
	}
	return s
}

// recorded collects the warnings of an answer.
type recorded struct{ warnings []string }

func (r *recorded) AddWarning(_, text string) { r.warnings = append(r.warnings, text) }

// asAdministrator returns the context of a request by a user who may see everything.
func asAdministrator(ctx context.Context) context.Context {
	administrator := &user.DefaultInfo{Name: "administrator"}
	ctx = request.WithUser(withRequestState(ctx), administrator)
	storeAccessSet(ctx, rights.Unlimited(administrator))
	return ctx
}

// byAdministrator returns a request as it reaches a handler, from a user who may see everything.
func byAdministrator(req *http.Request) *http.Request {
	return classified(req.WithContext(asAdministrator(req.Context())))
}

// classified returns a request with what RequestInfo has read of it.
func classified(req *http.Request) *http.Request {
	info := &request.RequestInfo{Path: req.URL.Path, APIGroup: "clusterpedia.io", APIVersion: "v1beta1"}
	RequestInfo(req, info)
	return req.WithContext(request.WithRequestInfo(req.Context(), info))
}

// ask sends a request to a handler.
func ask(t *testing.T, h http.Handler, method, path, accept string) (answer *httptest.ResponseRecorder, warnings []string) {
	t.Helper()
	recorder := &recorded{}
	req := httptest.NewRequest(method, "/apis/clusterpedia.io/v1beta1/"+path, nil)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	req = byAdministrator(req)
	answer = httptest.NewRecorder()
	h.ServeHTTP(answer, req.WithContext(warning.WithWarningRecorder(req.Context(), recorder)))
	return answer, recorder.warnings
}

func namesIn(t *testing.T, answer *httptest.ResponseRecorder) (names []string, list metav1.PartialObjectMetadataList) {
	t.Helper()
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &list), "%s", answer.Body)
	for _, item := range list.Items {
		names = append(names, item.Annotations[v1beta1.ClusterAnnotation]+"/"+item.Name)
	}
	return names, list
}

func TestLists(t *testing.T) {
	h := NewHandler(newStore(t), nil, http.NotFoundHandler())
	for path, want := range map[string][]string{
		"resources/apis/apps/v1/deployments":                                                            {"east/db", "east/web", "west/web"},
		"resources/clusters/west/apis/apps/v1/deployments":                                              {"west/web"},
		"resources/apis/apps/v1/namespaces/default/deployments":                                         {"east/db", "east/web", "west/web"},
		"resources/apis/apps/v1/namespaces/other/deployments":                                           nil,
		"resources/apis/apps/v1/namespaces/default/deployments?namespaces=other":                        {"east/db", "east/web", "west/web"},
		"resources/clusters/west/apis/apps/v1/deployments?clusters=east":                                {"west/web"},
		"resources/apis/apps/v1/deployments?labelSelector=app%3Ddb":                                     {"east/db"},
		"resources/apis/apps/v1/deployments?labelSelector=search.clusterpedia.io/clusters+notin+(east)": {"west/web"},
		"resources/apis/apps/v1/deployments?fieldSelector=spec.x%3Dy,metadata.name%3Ddb":                {"east/db"},
		"resources/apis/apps/v1/deployments?orderby=cluster+desc,name":                                  {"west/web", "east/db", "east/web"},
		"resources/api/v1/nodes":                                {"west/n"},
		"resources/apis/apps/v1/deployments?limit=1&continue=1": {"east/web"},
		"resources/apis/apps/v1/deployments?labelSelector=search.clusterpedia.io/orderby+in+(name_desc,cluster)": {"east/web", "west/web", "east/db"},
	} {
		t.Run(path, func(t *testing.T) {
			answer, _ := ask(t, h, http.MethodGet, path, "")
			names, list := namesIn(t, answer)
			assert.Equal(t, want, names)
			assert.Equal(t, "10", list.ResourceVersion)
			assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
		})
	}
}

// TestALimitForOneClusterReturnsAToken lists as Headlamp, kubectl and the pager of client-go do.
func TestALimitForOneClusterReturnsAToken(t *testing.T) {
	h := NewHandler(newStore(t), nil, nil)
	const path = "resources/clusters/east/apis/apps/v1/deployments?limit=1"
	answer, warnings := ask(t, h, http.MethodGet, path, "")
	names, list := namesIn(t, answer)
	assert.Equal(t, []string{"east/db"}, names)
	assert.Empty(t, warnings)
	require.NotEmpty(t, list.Continue)

	answer, _ = ask(t, h, http.MethodGet, path+"&continue="+list.Continue, "")
	names, list = namesIn(t, answer)
	assert.Equal(t, []string{"east/web"}, names)
	assert.Empty(t, list.Continue)

	answer, warnings = ask(t, h, http.MethodGet, path+"&withContinue=false", "")
	_, list = namesIn(t, answer)
	assert.Empty(t, list.Continue)
	assert.Len(t, warnings, 1)

	answer, _ = ask(t, h, http.MethodGet, path+"&resourceVersion=0", "")
	names, _ = namesIn(t, answer)
	assert.Equal(t, []string{"east/db", "east/web"}, names, "informers that list from a watch cache get everything at once")
}

func TestAListThatIsCutSaysSo(t *testing.T) {
	h := NewHandler(newStore(t), nil, nil)
	answer, warnings := ask(t, h, http.MethodGet, "resources/apis/apps/v1/deployments?limit=1", "")
	_, list := namesIn(t, answer)
	assert.Empty(t, list.Continue)
	assert.EqualValues(t, 2, *list.RemainingItemCount)
	assert.Equal(t, []string{"the limit of 1 has cut the list, 2 more follow: add the label search.clusterpedia.io/with-continue=true, or the parameter withContinue=true"}, warnings)

	answer, warnings = ask(t, h, http.MethodGet, "resources/apis/apps/v1/deployments?limit=1&withContinue=true&withRemainingCount=false", "")
	_, list = namesIn(t, answer)
	assert.NotEmpty(t, list.Continue)
	assert.Nil(t, list.RemainingItemCount)
	assert.Empty(t, warnings)

	answer, warnings = ask(t, h, http.MethodGet, "resources/apis/apps/v1/deployments?limit=2&withContinue=true&continue="+list.Continue, "")
	names, list := namesIn(t, answer)
	assert.Equal(t, []string{"east/web", "west/web"}, names)
	assert.Empty(t, list.Continue)
	assert.Zero(t, *list.RemainingItemCount)
	assert.Empty(t, warnings)
}

func TestAClusterThatIsNotCompleteIsNamed(t *testing.T) {
	s := newStore(t)
	kinds, err := s.Kinds(t.Context(), "west")
	require.NoError(t, err)
	_, err = s.OpenStream(t.Context(), "north", kinds[1])
	require.NoError(t, err)
	h := NewHandler(s, nil, nil)
	_, warnings := ask(t, h, http.MethodGet, "resources/"+pathOf(kinds[1]), "")
	assert.Equal(t, []string{"cluster north may have changed: its first list is not complete yet"}, warnings)
	_, warnings = ask(t, h, http.MethodGet, "resources/clusters/west/"+pathOf(kinds[1]), "")
	assert.Empty(t, warnings)
}

func pathOf(k streams.Kind) string {
	if k.Group == "" {
		return "api/" + k.Version + "/" + k.Resource
	}
	return "apis/" + k.Group + "/" + k.Version + "/" + k.Resource
}

func TestFormsOfAnswers(t *testing.T) {
	h := NewHandler(newStore(t), nil, nil)
	const path = "resources/apis/apps/v1/deployments"
	answer, _ := ask(t, h, http.MethodGet, path, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	var table metav1.Table
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &table))
	assert.Equal(t, "Table", table.Kind)
	assert.Equal(t, "Cluster", table.ColumnDefinitions[0].Name)
	assert.Equal(t, []any{"east", "db"}, table.Rows[0].Cells[:2])

	answer, _ = ask(t, h, http.MethodGet, path, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	assert.Contains(t, answer.Body.String(), `"kind":"PartialObjectMetadataList"`)
	assert.NotContains(t, answer.Body.String(), `"spec"`)

	answer, _ = ask(t, h, http.MethodGet, path+"?onlyMetadata=true", "")
	assert.NotContains(t, answer.Body.String(), `"spec"`)

	answer, _ = ask(t, h, http.MethodGet, path, "application/vnd.kubernetes.protobuf,application/json")
	assert.Contains(t, answer.Body.String(), `"kind":"DeploymentList","apiVersion":"apps/v1"`)
	answer, _ = ask(t, h, http.MethodGet, path, "application/vnd.kubernetes.protobuf")
	assert.Equal(t, http.StatusNotAcceptable, answer.Code)
}

func TestAnObjectOfACluster(t *testing.T) {
	h := NewHandler(newStore(t), nil, nil)
	answer, _ := ask(t, h, http.MethodGet, "resources/clusters/west/apis/apps/v1/namespaces/default/deployments/web", "")
	require.Equal(t, http.StatusOK, answer.Code)
	assert.Contains(t, answer.Body.String(), `"shadow.clusterpedia.io/cluster-name": "west"`)
	for path, want := range map[string]string{
		"resources/clusters/west/apis/apps/v1/namespaces/default/deployments/none":    `deployments.apps \"none\" not found`,
		"resources/clusters/west/apis/apps/v1/namespaces/default/deployments/web/log": "log of objects cannot be searched",
		"resources/clusters/west/apis/batch/v1/namespaces/default/jobs/web":           "/apis/batch/v1/namespaces/default/jobs/web is not searched in cluster west",
		"resources/clusters/west/api/v1/namespaces/default/nodes/n":                   "is not searched in cluster west",
		"resources/clusters/north/apis/apps/v1/deployments":                           `cluster \"north\" is not searched`,
		"resources/apis/apps/v1beta1/deployments":                                     "is not searched in any cluster",
		"resources/clusters/east/apis/nothing.io":                                     "no cluster has the group nothing.io",
		"resources/clusters/east/openapi/v2":                                          "is not served for clusters",
		"resources/clusters/east/openapi/v3/api/v1":                                   "no cluster has OpenAPI for api/v1",
		"resources/clusters/east/apis/apps/v9":                                        "no cluster has the group-version apps/v9",
		"resources/apis/apps/v1/deployments/x/y/z/more":                               "",
	} {
		t.Run(path, func(t *testing.T) {
			answer, _ := ask(t, h, http.MethodGet, path, "")
			assert.Equal(t, http.StatusNotFound, answer.Code)
			assert.Contains(t, answer.Body.String(), want)
			assert.Contains(t, answer.Body.String(), `"kind":"Status"`)
		})
	}
}

func TestRequestsThatCannotBeAnswered(t *testing.T) {
	s := newStore(t)
	h := NewHandler(s, nil, nil)
	for _, test := range []struct {
		method, path string
		code         int
		want         string
	}{
		{http.MethodGet, "resources/apis/apps/v1/namespaces/default/deployments/web", 400, "may be in several clusters"},
		{http.MethodGet, "resources/apis/apps/v1/deployments?cluster=east", 400, "parameter cluster is unknown, but there is clusters"},
		{http.MethodGet, "resources/apis/apps/v1/deployments?whereSQL=1", 400, "SQL in requests is not accepted"},
		{http.MethodGet, "resources/apis/apps/v1/deployments?resourceVersion=999", 504, "Too large resource version: 999, current: 10"},
		{http.MethodPost, "resources/apis/apps/v1/namespaces/default/deployments", 405, "search has copies of deployments.apps, but cannot change them: ask their cluster itself"},
		{http.MethodDelete, "resources/clusters/east/apis/apps/v1/namespaces/default/deployments/web", 405,
			"search has copies of deployments.apps, but cannot change them: ask cluster east itself, with a kubeconfig of its own"},
		{http.MethodPatch, "resources/clusters/east/apis/apps/v1/namespaces/default/deployments/web/scale", 405, "but cannot change them: ask cluster east itself"},
		{http.MethodPost, "resources/clusters/east/api/v1/namespaces/default/pods/web-1/eviction", 405, "but cannot change them: ask cluster east itself"},
		{http.MethodPost, "resources/apis", 404, "only GET is possible"},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			answer, _ := ask(t, h, test.method, test.path, "")
			assert.Equal(t, test.code, answer.Code)
			assert.Contains(t, answer.Body.String(), test.want)
		})
	}
	s.Close()
	for _, path := range []string{"resources/apis/apps/v1/deployments", "resources/clusters/east/apis/apps/v1/deployments", "resources/apis"} {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
		assert.Equal(t, "1", answer.Header().Get("Retry-After"))
	}
}

func TestTheNamesOfAllClusters(t *testing.T) {
	h := NewHandler(newStore(t), nil, nil)
	for _, path := range []string{"resources/clusters", "resources/clusters/"} {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		names, _ := namesIn(t, answer)
		assert.Equal(t, []string{"/east", "/west"}, names)
	}
}

func TestDiscovery(t *testing.T) {
	h := NewHandler(newStore(t), nil, nil)
	for path, want := range map[string]string{
		"resources/api":                        `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":null}`,
		"resources/clusters/east/api/v1":       `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`,
		"resources/clusters/west/apis":         `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}`,
		"resources/apis/apps":                  `{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}`,
		"resources/clusters/east/apis/apps/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments","singularName":"","namespaced":true,"kind":"Deployment","verbs":["get","list","watch"],"shortNames":["de"]}]}`,
	} {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		assert.Equal(t, want, answer.Body.String(), path)
	}
	answer, _ := ask(t, h, http.MethodGet, "resources/api", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")
	assert.Equal(t, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", answer.Header().Get("Content-Type"))
	assert.Contains(t, answer.Body.String(), `"resource":"pods"`)
	assert.NotContains(t, answer.Body.String(), "deployments")
}

// collectionOf asks for a collection.
func collectionOf(t *testing.T, h http.Handler, name, parameters string) (*v1beta1.CollectionResource, error) {
	t.Helper()
	answer, _ := ask(t, h, http.MethodGet, "collectionresources/"+name+"?"+parameters, "")
	if answer.Code != http.StatusOK {
		var status metav1.Status
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &status), "%s", answer.Body)
		return nil, apierrors.FromObject(&status)
	}
	collection := &v1beta1.CollectionResource{}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), collection), "%s", answer.Body)
	assert.Equal(t, "CollectionResource", collection.Kind)
	return collection, nil
}

func TestCollections(t *testing.T) {
	h := NewHandler(newStore(t), nil, nil)
	get := func(name, query string) (*v1beta1.CollectionResource, error) { return collectionOf(t, h, name, query) }
	for query, want := range map[string][]string{
		"groups=*":                                 {"db", "web", "web", "web-1", "web-2", "n"},
		"groups=apps":                              {"db", "web", "web"},
		"groups=/v1":                               {"web-1", "web-2", "n"},
		"resources=apps/deployments&limit=1":       {"db"},
		"resources=/v1/pods,/nodes":                {"web-1", "web-2", "n"},
		"resources=apps/v2/deployments":            nil,
		"resources=apps/deployments&clusters=west": {"web"},
	} {
		got, err := get("any", query)
		require.NoError(t, err, query)
		var names []string
		for _, item := range got.Items {
			var o metav1.PartialObjectMetadata
			require.NoError(t, json.Unmarshal(item.Raw, &o))
			names = append(names, o.Name)
		}
		assert.Equal(t, want, names, query)
	}
	got, err := get("workloads", "onlyMetadata=true")
	require.NoError(t, err)
	assert.Equal(t, []v1beta1.CollectionResourceType{{Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments"}}, got.ResourceTypes)
	assert.NotContains(t, string(got.Items[0].Raw), "spec")
	of, err := get("any", "resources=apps/v2/deployments")
	require.NoError(t, err)
	assert.Empty(t, of.ResourceVersion, "no cluster has it")

	for query, want := range map[string]string{"": "needs the parameter groups or resources", "groups=a/b/c": "neither GROUP nor", "resources=pods": "neither GROUP/RESOURCE", "groups=a" + strings.Repeat(",a", 1000): "more than 1000 values", "groups=*&cluster=y": "parameter cluster is unknown"} {
		_, err := get("any", query)
		assert.ErrorContains(t, err, want)
	}
	_, err = get("workloads", "groups=*")
	assert.ErrorContains(t, err, "only for the collection any")
	_, err = get("others", "")
	assert.ErrorContains(t, err, "not found")

	c := Collections{}
	list, err := c.List(context.Background(), nil)
	require.NoError(t, err)
	table, err := c.ConvertToTable(t.Context(), list, nil)
	require.NoError(t, err)
	assert.Equal(t, []any{"any", "*"}, table.Rows[0].Cells)
	assert.Equal(t, []any{"workloads", "deployments.apps,daemonsets.apps,statefulsets.apps"}, table.Rows[1].Cells)
}

// TestCollectionsHaveTheFormsOfLists holds for JSON, YAML and tables, and the API server makes none of them.
func TestCollectionsHaveTheFormsOfLists(t *testing.T) {
	h := NewHandler(newStore(t), nil, nil)
	const path = "collectionresources/workloads?clusters=east&limit=1&withContinue=true&withRemainingCount=true"
	answer, _ := ask(t, h, http.MethodGet, path, "application/json")
	want := answer.Body.String()
	answer, _ = ask(t, h, http.MethodGet, path, "application/yaml")
	assert.Equal(t, "application/yaml", answer.Header().Get("Content-Type"))
	got, err := yaml.YAMLToJSON(answer.Body.Bytes())
	require.NoError(t, err)
	assert.JSONEq(t, want, string(got))
	assert.Contains(t, want, `"continue":`)

	for include, object := range map[string]string{"": `"kind":"PartialObjectMetadata"`, "None": `"object":null`, "Object": `"kind":"Deployment"`} {
		answer, _ = ask(t, h, http.MethodGet, path+"&includeObject="+include, "application/json;as=Table;g=meta.k8s.io;v=v1")
		var shown metav1.Table
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &shown), "%s", answer.Body)
		require.Len(t, shown.Rows, 1)
		assert.Equal(t, []any{"east", "apps", "v1", "Deployment", "default", "db", "<unknown>"}, shown.Rows[0].Cells)
		assert.Contains(t, answer.Body.String(), object)
	}
	answer, _ = ask(t, h, http.MethodGet, path, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	assert.JSONEq(t, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"workloads","resourceVersion":"10"}}`, answer.Body.String())
	answer, _ = ask(t, h, http.MethodGet, path, "application/vnd.kubernetes.protobuf")
	assert.Equal(t, http.StatusNotAcceptable, answer.Code)
}

func TestOtherRequestsGoOn(t *testing.T) {
	h := NewHandler(newStore(t), nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	for _, path := range []string{"collectionresources", "collectionresources/", "collectionresources/any/x", "resources", "../v1/x"} {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		assert.Equal(t, http.StatusTeapot, answer.Code)
	}
}

// TestNamesThatMeanNothing holds that no misspelt name silently makes another answer than the client expects.
func TestNamesThatMeanNothing(t *testing.T) {
	h := NewHandler(newStore(t), nil, nil)
	const deployments = "resources/apis/apps/v1/deployments"
	for path, want := range map[string][]string{
		deployments:                        nil,
		deployments + "?_=1700000000":      {`parameter "_" is unknown, and changes nothing`},
		deployments + "?limit=-1":          nil,
		deployments + "?clusters=east":     nil,
		deployments + "?clusters=east,est": {`cluster "est" is not searched, or shows you nothing`},
		deployments + "?labelSelector=search.clusterpedia.io/clusters=est":  {`cluster "est" is not searched, or shows you nothing`},
		deployments + "?labelSelector=search.clusterpedia.io/clusters!=est": nil,
		"resources/clusters/east/apis/apps/v1/deployments?clusters=est":     nil,
		"collectionresources/any?groups=apps&clusters=est":                  {`cluster "est" is not searched, or shows you nothing`},
		"collectionresources/any?groups=apps&color=red":                     {`parameter "color" is unknown, and changes nothing`},
	} {
		answer, warnings := ask(t, h, http.MethodGet, path, "")
		assert.Equal(t, http.StatusOK, answer.Code, "%s: %s", path, answer.Body)
		if assert.Len(t, warnings, len(want), path) && len(want) > 0 {
			assert.Contains(t, warnings[0], want[0], path)
		}
	}
}

// TestYAMLHasTheTextsOfJSON holds for characters that are white space or mean nothing in YAML.
func TestYAMLHasTheTextsOfJSON(t *testing.T) {
	var text strings.Builder
	for c := rune(0x20); c < 0x300; c++ {
		text.WriteRune(c)
	}
	for _, c := range " \u2028 \u2029 \ufeff \ufffe \uffff \U0001f6a2 \x00 \t\n" {
		text.WriteRune(c)
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	want := map[string]string{"text": text.String(), "other": " ", text.String(): "key"}
	require.NoError(t, encoder.Encode(want))
	literal := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(buffer.String())
	require.True(t, json.Valid([]byte(literal)))
	inYAML, err := toYAML([]byte(literal))
	require.NoError(t, err)
	var got map[string]string
	require.NoError(t, yaml.Unmarshal(inYAML, &got))
	assert.Equal(t, want, got)
}
