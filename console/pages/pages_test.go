// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/console/searchclient"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

// evil is what a cluster could have as any text.
const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>`

// serving returns the pages of a console whose search answers by path.
func serving(t *testing.T, answers map[string]any) http.Handler {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		path := strings.TrimPrefix(req.URL.Path, "/apis/clusterpedia.io/v1beta1")
		if by := req.URL.Query().Get("groupBy"); answers[path+" "+by] != nil {
			path += " " + by
		}
		answer, found := answers[path]
		if made, is := answer.(func() any); is {
			answer = made()
		}
		w.Header().Set("Content-Type", "application/json")
		if !found {
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"kind": "Status", "message": "no " + evil}
		}
		w.Header().Set("Search-Staleness", "east=3.2, west=75.3, <b>=inf")
		w.Header().Set("Warning", `299 - "`+strings.ReplaceAll(evil, `"`, `\"`)+`"`)
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(server.Close)
	client, err := searchclient.New(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	return New(client, Options{})
}

// unreachable is a client of a server that does not answer.
func unreachable(t *testing.T) *searchclient.Client {
	t.Helper()
	client, err := searchclient.New(&rest.Config{Host: "http://127.0.0.1:1"})
	require.NoError(t, err)
	return client
}

func get(t *testing.T, pages http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	pages.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return answer
}

// object returns an object of a cluster with hostile text in each field.
func object(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap" + evil, "metadata": map[string]any{
		"name": name, "namespace": "shop", "uid": "u", "annotations": map[string]any{"shadow.clusterpedia.io/cluster-name": "east", "a": evil},
	}, "data": map[string]any{"a": evil, "turned": "exe.\u202etxt"}}
}

func TestAKindOfTwoPluralsLeadsToItsObject(t *testing.T) {
	t.Parallel()
	boat := map[string]any{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": map[string]any{
		"name": "a", "namespace": "shop", "annotations": map[string]any{"shadow.clusterpedia.io/cluster-name": "east"},
	}, "spec": map[string]any{"sails": "three"}}
	types := []any{}
	for _, plural := range []string{"boats", "ships", "boats", "vessels"} {
		types = append(types, map[string]any{"group": "example.com", "version": "v1", "kind": "Boat", "resource": plural})
	}
	pages := serving(t, map[string]any{
		"/collectionresources/any": map[string]any{"resourceTypes": types, "items": []any{boat}},
		"/resources/clusters/east/apis/example.com/v1/namespaces/shop/ships/a": boat,
	})
	results := get(t, pages, "/").Body.String()
	link := regexp.MustCompile(`"(object\?[^"]*)"`).FindStringSubmatch(results)
	require.NotNil(t, link, results)
	at := html.UnescapeString(link[1])
	assert.Contains(t, at, "resource=boats&version=v1&or=ships&or=vessels")
	answer := get(t, pages, "/"+at)
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Contains(t, answer.Body.String(), "sails: three")
	assert.Contains(t, answer.Body.String(), "namespaces/shop/ships/a", "the address under which the cluster has it")

	for or, code := range map[string]int{"": http.StatusBadRequest, "vessels": http.StatusNotFound, "a/b": http.StatusBadRequest} {
		answer = get(t, pages, "/object?cluster=east&group=example.com&version=v1&resource=boats&namespace=shop&name=a&or="+url.QueryEscape(or))
		assert.Equal(t, code, answer.Code, or)
	}
}

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	pages := serving(t, map[string]any{
		"/collectionresources/any": map[string]any{
			"resourceTypes": []any{map[string]any{"version": "v1", "kind": "ConfigMap" + evil, "resource": evil}},
			"items":         []any{object(evil)}, "continue": evil, "remainingItemCount": 7,
		},
		"/resources/clusters/east/api/v1/namespaces/shop/configmaps/x": object("x"),
		"/resources/clusters/west/api/v1/namespaces/shop/configmaps/x": object("x"),
		"/resources/api/v1/namespaces/shop/configmaps":                 map[string]any{"items": []any{object("x"), object(evil)}},
		"/resources/clusters/east/api/v1/namespaces/shop/configmaps/x/relations": map[string]any{
			"relations": []any{map[string]any{"type": evil, "direction": "Incoming", "distance": 1, "object": map[string]any{
				"kind": evil, "version": "v1", "resource": evil, "namespace": evil, "name": evil,
			}}},
			"leftOff": []any{map[string]any{"type": evil, "resource": evil, "count": 3}},
			"events":  []any{map[string]any{"type": evil, "reason": evil, "message": evil}},
		},
	})
	const one = "cluster=east&version=v1&resource=configmaps&namespace=shop&name=x"
	for path, code := range map[string]int{
		"/?q=" + url.QueryEscape("kind:<script>alert(1)</script>"):              http.StatusNotFound,
		"/?q=" + url.QueryEscape(`"x `+strings.ReplaceAll(evil, `"`, `\"`)+`"`): http.StatusOK,
		"/":              http.StatusOK,
		"/object?" + one: http.StatusOK,
		"/object?" + one + "&at=" + url.QueryEscape(evil):    http.StatusOK,
		"/compare?" + one + "&with=west":                     http.StatusOK,
		"/compare?" + one + "&with=" + url.QueryEscape(evil): http.StatusBadRequest,
		"/object?cluster=east":                               http.StatusBadRequest,
		"/object?" + one + "y":                               http.StatusNotFound,
	} {
		answer := get(t, pages, path)
		assert.Equal(t, code, answer.Code, "%s: %s", path, answer.Body)
		text := answer.Body.String()
		assert.NotContains(t, text, "<script", path)
		assert.NotContains(t, text, "<img src=x", path)
		assert.NotContains(t, text, "\u202e", path)
		assert.Equal(t, "text/html; charset=utf-8", answer.Header().Get("Content-Type"))
	}
	assert.Contains(t, get(t, pages, "/object?"+one).Body.String(), "exe.[U+202E]txt")
	text := get(t, pages, "/").Body.String()
	assert.Contains(t, text, "1 object on this page, 7 more follow")
	assert.Contains(t, text, "<strong>old copy,</strong> 75s")
	assert.Contains(t, text, "<li>east: 3s</li>")
}

func TestCountsLeadToTheirObjects(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	pages := serving(t, map[string]any{"/collectionresources/any": map[string]any{
		"groupBy": []string{"cluster", "group", "resource", "spec.a"}, "total": 8, "otherGroups": 3, "otherCount": 2, "groups": []any{
			map[string]any{"values": []string{evil, "apps", "deployments", evil}, "count": 3},
			map[string]any{"values": []string{"east", "", "pods", ""}, "count": 1},
			map[string]any{"values": []string{"east", "", "pods", "(object or list)"}, "count": 1},
			map[string]any{"values": []string{"east", "", "pods", long}, "count": 1},
		},
	}})
	answer := get(t, pages, "/?q="+url.QueryEscape("front count:cluster count:kind count:spec.a"))
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	text := answer.Body.String()
	assert.NotContains(t, text, "<script")
	assert.NotContains(t, text, "<img src=x")
	assert.Contains(t, text, "3 more groups have 2 objects.")
	assert.Contains(t, text, "8 objects.")
	assert.Contains(t, text, "<td>3</td><td>37.5 %</td>")
	for _, q := range []string{
		`front cluster:east kind:pods field:spec.a=`, `front cluster:east kind:pods field:"spec.a startswith (` + long + `)"`, `front`, `front count:namespace`,
	} {
		assert.Contains(t, html.UnescapeString(text), `href="?`+url.Values{"q": {q}}.Encode()+`"`)
	}
	assert.Equal(t, 3, strings.Count(text, `<th scope="row"><a `), "an object or a list cannot be looked for")

	pages = serving(t, map[string]any{"/collectionresources/any": map[string]any{"groups": []any{map[string]any{"values": []string{"x"}, "count": 1}}}})
	assert.Equal(t, http.StatusBadGateway, get(t, pages, "/?q=count:kind").Code)
}

// TestPagesAreServedBeforeTheBoxIsCompleted has a search that takes long to count its objects.
func TestPagesAreServedBeforeTheBoxIsCompleted(t *testing.T) {
	t.Parallel()
	counted := make(chan struct{})
	count := sync.OnceFunc(func() { close(counted) })
	groups := map[string]any{"groups": []any{map[string]any{"values": []string{"east", "shop"}, "count": 1}}}
	pages := serving(t, map[string]any{
		"/collectionresources/any":                   map[string]any{},
		"/collectionresources/any cluster,namespace": func() any { <-counted; return groups },
		"/collectionresources/any group,kind":        groups,
	})
	t.Cleanup(count)
	for range 2 {
		answer := get(t, pages, "/")
		require.Equal(t, http.StatusOK, answer.Code)
		assert.NotContains(t, answer.Body.String(), "datalist")
	}
	count()
	require.Eventually(t, func() bool { return strings.Contains(get(t, pages, "/").Body.String(), "namespace:shop") }, time.Minute, 10*time.Millisecond)
}

// TestTheBoxIsCompleted holds for what search shows only, and not for text that would look like something else.
func TestTheBoxIsCompleted(t *testing.T) {
	t.Parallel()
	groups := func(values ...[]string) any {
		var all []any
		for _, v := range values {
			all = append(all, map[string]any{"values": v, "count": 1})
		}
		return map[string]any{"groups": all}
	}
	pages := serving(t, map[string]any{
		"/collectionresources/any":                   map[string]any{},
		"/collectionresources/any cluster,namespace": groups([]string{"east", "shop"}, []string{"east", ""}, []string{"we\u202est", evil}, []string{"one"}),
		"/collectionresources/any group,kind":        groups([]string{"", "Pod"}, []string{"example.com", "Boat"}, []string{"apps", "Deployment"}),
	})
	options := func(text string) (all []string) {
		for _, found := range regexp.MustCompile(`<option value="([^"]*)">`).FindAllStringSubmatch(get(t, pages, "/?q="+url.QueryEscape(text)).Body.String(), -1) {
			all = append(all, html.UnescapeString(found[1]))
		}
		return all
	}
	require.Eventually(t, func() bool { return len(options("")) > 0 }, time.Minute, 10*time.Millisecond)
	assert.Equal(t, []string{"cluster:east", "kind:Boat.example.com", "kind:Deployment", "kind:Pod", `namespace:"` + strings.ReplaceAll(evil, `"`, `\"`) + `"`, "namespace:shop"}, options(""))
	assert.Equal(t, []string{"front namespace:shop cluster:east", "front namespace:shop kind:Boat.example.com", "front namespace:shop kind:Deployment", "front namespace:shop kind:Pod"}, slices.DeleteFunc(options("front  namespace:shop"),
		func(o string) bool { return strings.Contains(o, "script") }))
	assert.Empty(t, options(strings.Repeat("x", 300)))
	assert.NotContains(t, get(t, pages, "/?q="+strings.Repeat("x", 300)).Body.String(), "datalist")
}

func TestPathsDoNotLeaveTheObject(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"..", ".", "a/b", "a%2fb", strings.Repeat("x", 600)} {
		for _, name := range []string{"cluster", "group", "version", "resource", "namespace", "name"} {
			values := url.Values{"cluster": {"c"}, "version": {"v1"}, "resource": {"pods"}, "name": {"x"}}
			values.Set(name, bad)
			_, err := identityOf(values)
			assert.Error(t, err, "%s=%s", name, bad)
		}
	}
	id := identity{"c", "apps", "v1", "deployments", "a b", "x?y#z"}
	assert.Equal(t, "/apis/clusterpedia.io/v1beta1/resources/clusters/c/apis/apps/v1/namespaces/a%20b/deployments/x%3Fy%23z", id.path())
	again, err := identityOf(id.values())
	require.NoError(t, err)
	assert.Equal(t, id, again)
}

func TestExportsAreNoFormulas(t *testing.T) {
	t.Parallel()
	item := object("=HYPERLINK(1)")
	pages := serving(t, map[string]any{"/collectionresources/any": map[string]any{
		"resourceTypes": []any{map[string]any{"version": "v1", "kind": "ConfigMap" + evil, "resource": "configmaps"}}, "items": []any{item},
	}})
	answer := get(t, pages, "/results.csv")
	assert.Contains(t, answer.Body.String(), ",'=HYPERLINK(1),")
	assert.Contains(t, answer.Header().Get("Content-Disposition"), "attachment")
	var all []exportedObject
	answer = get(t, pages, "/results.json")
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &all))
	require.Len(t, all, 1)
	assert.Equal(t, "=HYPERLINK(1)", all[0].Name)
	assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	assert.Contains(t, answer.Header().Get("Content-Disposition"), "attachment")
}

func TestInvisibleCharactersAreShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\n\tpl\u00e4in 日本": "plain\n\tpl\u00e4in 日本",
		"a\x00b\x1bc":            "a[U+0000]b[U+001B]c",
		"a\u202eb\u2066c\ufeff":  "a[U+202E]b[U+2066]c[U+FEFF]",
		"a\U000e0041b":           "a[U+E0041]b",
		"a\u3164b\ufe0fc\u034f":  "a[U+3164]b[U+FE0F]c[U+034F]",
		"a\xffb":                 "a\ufffdb",
	} {
		assert.Equal(t, want, visible(text))
	}
}

func TestOwnersInACircleEnd(t *testing.T) {
	t.Parallel()
	of := func(name string) v1beta1.RelatedObject {
		return v1beta1.RelatedObject{Resource: "ks", Version: "v1", Name: name}
	}
	a, b, lost := of("a"), of("b"), of("lost")
	all := &v1beta1.ObjectRelations{Object: of("root"), Relations: []v1beta1.Relation{
		{Type: "Owner", Direction: "Outgoing", Distance: 1, Object: a},
		{Type: "Selector", Direction: "Incoming", Distance: 1, Object: a},
		{Type: "Owner", Direction: "Outgoing", Distance: 2, Via: &a, Object: b},
		{Type: "Owner", Direction: "Outgoing", Distance: 3, Via: &b, Object: a},
		{Type: "Owner", Direction: "Outgoing", Distance: 3, Via: &b, Object: of("root")},
		{Type: "Owner", Direction: "Outgoing", Distance: 2, Via: &lost, Object: of("c")},
		{Type: "Later", Direction: "Incoming", Distance: 1, Object: b},
	}, LeftOff: []v1beta1.RelationsLeftOff{
		{Type: "Selector", Direction: "Incoming", Resource: "pods", Count: 950, More: true},
		{Type: "Volume", Direction: "Outgoing", Resource: "configmaps", Count: 2},
	}}
	page := &objectPage{}
	page.arrange(all)
	var got []string
	for _, g := range page.Related {
		got = append(got, g.Heading+": "+treeText(g.Nodes)+" "+g.Left)
	}
	assert.Equal(t, []string{
		"Owners: a(b())c() ", "Selected by: a() Left out: at least 950 pods. ", "Later of: b() ", "Mounts:  Left out: 2 configmaps. ",
	}, got)
}

func treeText(nodes []treeNode) (text string) {
	for _, n := range nodes {
		text += fmt.Sprintf("%s(%s)", n.Name, treeText(n.Nodes))
	}
	return text
}

func TestLongAndDeepObjectsAreBounded(t *testing.T) {
	t.Parallel()
	textOf := func(object map[string]any) (string, bool) {
		encoded, err := json.Marshal(object)
		require.NoError(t, err)
		l, err := decode(encoded)
		require.NoError(t, err)
		return l.text()
	}
	text, cut := textOf(map[string]any{"a": strings.Repeat("ä", maxShown)})
	assert.True(t, cut)
	assert.LessOrEqual(t, len(text), maxShown)
	deep := any("x")
	for range 200 {
		deep = []any{deep}
	}
	text, cut = textOf(map[string]any{"a": deep})
	assert.False(t, cut)
	assert.Less(t, len(text), 1000, "blanks would be more")

	encoded, err := json.Marshal(map[string]any{"kind": "Large", "metadata": map[string]any{"name": "a"}, "data": make([]int, maxDecoded)})
	require.NoError(t, err)
	l, err := decode(encoded)
	require.NoError(t, err)
	assert.Equal(t, "Large", l.GetKind())
	assert.Len(t, l.Object, 2, "only metadata is decoded: %v", l.Object)
	_, cut = l.text()
	assert.True(t, cut)
	_, tooLarge := l.comparable()
	assert.True(t, tooLarge)
}

func TestLinesStandSideBySide(t *testing.T) {
	t.Parallel()
	rows, err := sideBySide("a: 1\nb: 2\nc: 3\n", "a: 1\nb: 4\nb: 5\nc: 3\n")
	require.NoError(t, err)
	assert.Equal(t, []comparedRow{
		{diffLine{"", "a: 1"}, diffLine{"", "a: 1"}},
		{diffLine{"-", "b: 2"}, diffLine{"+", "b: 4"}},
		{diffLine{}, diffLine{"+", "b: 5"}},
		{diffLine{"", "c: 3"}, diffLine{"", "c: 3"}},
	}, rows)
}
