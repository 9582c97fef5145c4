// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"net/http"
	"slices"
	"strings"
)

var (
	complains = Shows{Complains: true}
	copied    = Shows{Copied: true}
	// both is for a lie about some objects, which does not keep search from copying others.
	both = Shows{Copied: true, Complains: true}
)

const (
	quotes   = `"\"quoted\" 'name'\\"`
	nul      = `"nul\u0000"`
	control  = `"a\u0001\u001f\u007f\u2028\n\r\tb"`
	escaping = `"../../../../api/v1/secrets?watch=true#"`
)

// long is a name of 1 MB.
var long = `"` + strings.Repeat("a", 1<<20) + `"`

// reports is for a lie that the status describes with a text.
func (s Shows) reports(text string) Shows {
	s.Reports = text
	return s
}

// Lies are all lies.
var Lies = slices.Concat(bodies, sizes, types, names, versions, rights, redirects, Frames)

// bodies are answers that have no end, or none in time.
var bodies = []Lie{
	{Name: "slow-list", Answer: answer(toLists, slowly), Shows: complains.reports(`WithinLimits=False LimitReached: .*configmaps: .*member-timeout`)},
	{Name: "slow-watch", Answer: answer(toWatches, slowly)},
	{Name: "slow-version", Answer: answer(toVersion, slowly), Shows: complains},
	{Name: "slow-groups", Answer: answer(toGroups, slowly), Shows: complains},
	{Name: "silent", Answer: answer(toAll, silently), Shows: complains},
	{Name: "silent-list", Answer: answer(toLists, silently), Shows: complains.reports("configmaps MemberFails: no answer in ")},
	{Name: "endless-string", Answer: answer(toLists, endlessly(http.StatusOK, "", "a")), Shows: complains.reports(`WithinLimits=False LimitReached: .*configmaps: .*member-max-object-size`)},
	{Name: "endless-blanks", Answer: answer(toLists, endlessly(http.StatusOK, " ", " ")), Shows: complains},
	{Name: "endless-version", Answer: answer(toVersion, endlessly(http.StatusOK, `{"gitVersion": "`, "a")), Shows: complains},
	{Name: "endless-groups", Answer: answer(toGroups, endlessly(http.StatusOK, `{"groups": [{}`, `,{"name": "a"}`)), Shows: complains.reports(`ClusterHealthy=False NotReachable: .*member-max-document-size`)},
	{Name: "endless-resources", Answer: answer(toResources, endlessly(http.StatusOK, `{"resources": [{}`, `,{"name": "a"}`)), Shows: Shows{}},
	{Name: "endless-refusal", Answer: answer(toLists, endlessly(http.StatusForbidden, `{"kind": "Status", "message": "`, "a")), Shows: complains},
	{Name: "endless-refusal-of-groups", Answer: answer(toGroups, endlessly(http.StatusInternalServerError, "no", "a")), Shows: complains},
	{Name: "endless-objects", Answer: answer(toLists, endlessObjects), Shows: Shows{}.reports(`Fresh=False Incomplete`)},
	{Name: "endless-events", Answer: floods, Shows: copied},
	{Name: "cut-list", Answer: answer(toLists, breakOff)},
	{Name: "cut-watch", Answer: answer(toWatches, breakOff), Shows: copied},
	{Name: "headers", Answer: answer(toLists, headers)},
	{Name: "hints", Answer: answer(toLists, hints), Shows: complains},
	{Name: "retry-never", Answer: answer(toLists, refuse(http.StatusTooManyRequests, "Retry-After", "1000000000"))},
	{Name: "retry-at-once", Answer: answer(toLists, refuse(http.StatusServiceUnavailable, "Retry-After", "0")), Shows: complains},
}

// sizes are answers that are larger than any cluster.
var sizes = []Lie{
	{Name: "bomb-list", Answer: answer(toLists, bomb(http.StatusOK, "")), Shows: complains.reports(`WithinLimits=False LimitReached: .*configmaps: .*member-max-object-size`)},
	{Name: "bomb-pages", Answer: pages(bomb(http.StatusOK, "")), Shows: complains.reports(`WithinLimits=False LimitReached: .*configmaps: .*member-max-object-size`)},
	{Name: "bomb-watch", Answer: answer(toEvents, withoutStreaming(bomb(http.StatusOK, ""))), Shows: complains},
	{Name: "bomb-groups", Answer: answer(toGroups, bomb(http.StatusOK, `{"groups": [{"name": "`)), Shows: complains.reports(`ClusterHealthy=False NotReachable: .*member-max-document-size`)},
	{Name: "bomb-refusal", Answer: answer(toLists, bomb(http.StatusForbidden, "no")), Shows: complains},
	{Name: "bomb-roles", Answer: answer(func(r *Request) bool { return r.Resource == "roles" && r.IsList() }, bomb(http.StatusOK, "")), Shows: both.reports(`WithinLimits=False LimitReached: .*roles.*member-max-object-size`)},
	{Name: "bomb-openapi", Answer: answer(func(r *Request) bool { return strings.HasPrefix(r.URL.Path, "/openapi") }, bomb(http.StatusOK, `{"paths": "`)), Shows: copied},
	{Name: "bomb-columns", Answer: answer(func(r *Request) bool { return r.Resource == "customresourcedefinitions" }, bomb(http.StatusOK, "")), Shows: copied},
	{Name: "many-resources", Answer: answer(toBoats, text(manyResources(100_000)))},
	{Name: "many-groups", Answer: answer(toGroups, text(manyGroups(10_000)))},
	{Name: "same-page", Answer: pages(samePage), Shows: Shows{}.reports(`WithinLimits=False LimitReached: .*configmaps: the list does not end`)},
	{Name: "empty-pages", Answer: pages(emptyPages)},
	{Name: "expiring-pages", Answer: pages(expiringPages), Shows: Shows{}},
	{Name: "deep-object", Answer: with("configmaps", Object("configmaps", "deep", "6", `, "data": `+nested(5_000))), Shows: both.reports(`configmaps ObjectsRefused: default/deep: `)},
	{Name: "deeper-object", Answer: with("configmaps", Object("configmaps", "deep", "6", `, "data": `+nested(1_000_000)))},
	{Name: "deep-groups", Answer: answer(toGroups, text(nested(1_000_000))), Shows: complains.reports(`ClusterHealthy=False NotReachable: .*nested deeper`)},
}

// types are values of other types than those of Kubernetes.
var types = []Lie{
	{Name: "rules-are-text", Answer: with("roles", Object("roles", "lie", "6", `, "rules": "everything"`)), Shows: copied.reports(`RBACRead=False Unreadable: .*roles default/lie: `)},
	{Name: "subjects-are-a-number", Answer: with("rolebindings", Object("rolebindings", "lie", "6", `, "subjects": 7, "roleRef": []`)), Shows: copied},
	{Name: "cluster-rules-are-text", Answer: with("clusterroles", Object("clusterroles", "lie", "6", `, "rules": {"*": "*"}, "aggregationRule": 1`)), Shows: copied},
	{Name: "finalizers-are-a-number", Answer: withConfigMap(`{"namespace": "default", "name": "lie", "resourceVersion": "6", "finalizers": 7}`), Shows: both.reports(`configmaps ObjectsRefused: default/lie: `)},
	{Name: "labels-are-numbers", Answer: withConfigMap(`{"namespace": "default", "name": "lie", "resourceVersion": "6", "labels": {"a": 1}}`)},
	{Name: "annotations-are-a-list", Answer: withConfigMap(`{"namespace": "default", "name": "lie", "resourceVersion": "6", "annotations": ["a"]}`)},
	{Name: "owners-are-text", Answer: withConfigMap(`{"namespace": "default", "name": "lie", "resourceVersion": "6", "ownerReferences": "all"}`)},
	{Name: "created-yesterday", Answer: withConfigMap(`{"namespace": "default", "name": "lie", "resourceVersion": "6", "creationTimestamp": "yesterday"}`)},
	{Name: "uid-is-an-object", Answer: withConfigMap(`{"namespace": "default", "name": "lie", "resourceVersion": 6, "uid": {}}`)},
	{Name: "metadata-is-text", Answer: withConfigMap(`"lie"`)},
	{Name: "metadata-is-null", Answer: withConfigMap(`null`)},
	{Name: "two-spellings", Answer: with("configmaps", `{"kind": "ConfigMap", "metadata": {"namespace": "default", "name": "lie", "resourceVersion": "6"}, "Metadata": {"name": 7, "finalizers": 7}, "METADATA": []}`), Shows: both.reports(`configmaps ObjectsRefused: .*lie`)},
	{Name: "two-names", Answer: withConfigMap(`{"namespace": "default", "name": "lie", "name": "other", "NAME": "third", "resourceVersion": "6"}`), Shows: both.reports(`configmaps ObjectsRefused`)},
	{Name: "object-is-a-number", Answer: with("configmaps", "7")},
	{Name: "object-is-null", Answer: with("configmaps", "null")},
	{Name: "items-are-text", Answer: pages(text(`{"kind": "List", "metadata": {"resourceVersion": "10"}, "items": "all"}`)), Shows: complains},
	{Name: "list-is-a-list", Answer: pages(text(`[]`)), Shows: complains},
	{Name: "list-is-html", Answer: pages(text(`<!DOCTYPE html>`)), Shows: complains},
	{Name: "list-is-empty", Answer: pages(text(``)), Shows: complains},
	{Name: "list-is-no-text", Answer: with("configmaps", "{\"metadata\": {\"name\": \"\xff\xfe\xed\xa0\x80\", \"namespace\": \"default\"}}")},
	{Name: "data-is-text", Answer: with("configmaps", Object("configmaps", "lie", "6", `, "data": "all", "binaryData": 7`))},
	{Name: "groups-are-text", Answer: answer(toGroups, text(`{"groups": "all"}`)), Shows: complains},
	{Name: "version-is-a-list", Answer: answer(toVersion, text(`[]`)), Shows: complains},
	{Name: "columns-are-text", Answer: with("customresourcedefinitions", `{"spec": {"versions": [{"name": "v1", "additionalPrinterColumns": "all"}]}}`), Shows: copied},
	{Name: "columns-are-paths", Answer: with("customresourcedefinitions", `{"spec": {"versions": [{"name": "v1", "additionalPrinterColumns": [
		{"name": "\u0000", "type": "lie", "jsonPath": "{..}{range"}, {"name": "a", "jsonPath": ".spec[?(@.a"}]}]}}`), Shows: copied},
}

// names are names, kinds and scopes that are none.
var names = []Lie{
	{Name: "name-with-quotes", Answer: withConfigMap(named(quotes))},
	{Name: "name-with-nul", Answer: withConfigMap(named(nul)), Shows: both.reports(`configmaps ObjectsRefused`)},
	{Name: "name-with-controls", Answer: withConfigMap(named(control))},
	{Name: "name-escapes", Answer: withConfigMap(named(escaping))},
	{Name: "name-is-long", Answer: withConfigMap(named(long))},
	{Name: "name-is-empty", Answer: withConfigMap(named(`""`))},
	{Name: "no-namespace", Answer: withConfigMap(`{"name": "lie", "resourceVersion": "6"}`)},
	{Name: "namespace-with-nul", Answer: withConfigMap(`{"name": "lie", "namespace": ` + nul + `, "resourceVersion": "6"}`)},
	{Name: "namespaced-namespace", Answer: with("namespaces", `{"kind": "Namespace", "metadata": {"name": "default", "namespace": "default", "resourceVersion": "6"}}`)},
	{Name: "another-kind", Answer: with("configmaps", Object("roles", "lie", "6", `, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]`)), Shows: copied},
	{Name: "label-with-nul", Answer: withConfigMap(`{"namespace": "default", "name": "lie", "resourceVersion": "6", "labels": {"\u0000": "\u0000", "": "` + strings.Repeat("a", 1<<20) + `"}}`), Shows: both.reports(`configmaps ObjectsRefused`)},
	{Name: "cluster-is-another", Answer: withConfigMap(`{"namespace": "default", "name": "lie", "resourceVersion": "6", "annotations": {"shadow.clusterpedia.io/cluster-name": "hub"}}`), Shows: copied},
	{Name: "pods-of-the-cluster", Answer: unlike(resource("pods", "Pod", false)), Shows: copied},
	{Name: "config-maps-of-the-cluster", Answer: answer(toResources, text(resourceList("v1", resource("configmaps", "ConfigMap", false))))},
	{Name: "kind-with-quotes", Answer: unlike(`{"name": "pods", "kind": ` + quotes + `, "namespaced": true, "verbs": ["list", "watch"]}`), Shows: copied},
	{Name: "kind-with-nul", Answer: unlike(`{"name": "pods", "kind": ` + nul + `, "namespaced": true, "verbs": ["list", "watch"]}`)},
	{Name: "kind-is-long", Answer: unlike(`{"name": "pods", "kind": ` + long + `, "namespaced": true, "verbs": ["list", "watch"]}`)},
	{Name: "kind-is-another", Answer: unlike(resource("pods", "Secret", true))},
	{Name: "resource-escapes", Answer: unlike(`{"name": ` + escaping + `, "kind": "Lie", "namespaced": true, "verbs": ["list", "watch"]}`)},
	{Name: "resource-with-nul", Answer: unlike(`{"name": ` + nul + `, "kind": "Lie", "namespaced": true, "verbs": ["list", "watch"]}`)},
	{Name: "boats-of-the-cluster", Answer: answer(toBoats, text(resourceList("example.com/v1", resource("boats", "Boat", false)))), Shows: copied},
	{Name: "boats-are-another-kind", Answer: answer(toBoats, text(resourceList("example.com/v1", resource("boats", "Pod", true)))), Shows: copied},
	{Name: "boats-with-quotes", Answer: answer(toBoats, text(`{"groupVersion": "example.com/v1", "resources": [{"name": "boats", "kind": `+quotes+`,
		"shortNames": ["cm", "po", `+quotes+`], "namespaced": true, "verbs": ["list", "watch"]}]}`)), Shows: copied},
	{Name: "short-names", Answer: unlike(`{"name": "pods", "kind": "Pod", "singularName": "configmap", "shortNames": ["cm", "ns", ` + quotes + `, ` + nul + `],
		"categories": ["all", ` + control + `], "namespaced": true, "verbs": ["list", "watch"]}`), Shows: copied},
	{Name: "group-escapes", Answer: answer(toGroups, text(`{"groups": [{"name": "../api", "versions": [{"groupVersion": "../api/v1", "version": "v1"}]},
		{"name": `+nul+`, "versions": [{"groupVersion": `+nul+`, "version": `+nul+`}]}]}`))},
}

// versions are resourceVersions and events in no order.
var versions = []Lie{
	{Name: "version-goes-back", Answer: happens(event("MODIFIED", Object("configmaps", "lie", "9", "")), event("MODIFIED", Object("configmaps", "lie", "1", ""))), Shows: copied},
	{Name: "version-is-empty", Answer: happens(event("MODIFIED", Object("configmaps", "lie", "", ""))), Shows: copied},
	{Name: "version-is-huge", Answer: happens(event("MODIFIED", Object("configmaps", "lie", strings.Repeat("9", 100), ""))), Shows: copied},
	{Name: "version-is-long", Answer: happens(event("MODIFIED", Object("configmaps", "lie", strings.Repeat("9", 1<<20), "")))},
	{Name: "version-is-text", Answer: happens(event("MODIFIED", Object("configmaps", "lie", "'; DROP TABLE objects; --", ""))), Shows: copied},
	{Name: "version-with-nul", Answer: happens(`{"type": "MODIFIED", "object": {"metadata": {"namespace": "default", "name": "lie", "resourceVersion": ` + nul + `}}}`)},
	{Name: "deletes-others", Answer: happens(event("DELETED", Object("configmaps", "there-is-none", "11", "")), event("DELETED", Object("configmaps", "there-is-none", "12", ""))), Shows: copied},
	{Name: "event-of-no-type", Answer: happens(event("LIED", Object("configmaps", "lie", "11", ""))), Shows: Shows{}.reports(`configmaps NotWatched: .*an event of the type`)},
	{Name: "event-is-text", Answer: happens(`"lie"`)},
	{Name: "event-without-object", Answer: happens(`{"type": "ADDED"}`)},
	{Name: "watch-is-expired", Answer: ends(event("ERROR", `{"kind": "Status", "code": 410, "reason": "Expired"}`))},
	{Name: "watch-fails", Answer: ends(event("ERROR", `"no"`))},
	{Name: "watch-ends-at-once", Answer: ends()},
	{Name: "bookmark-without-version", Answer: happens(event("BOOKMARK", `{}`)), Shows: copied},
	{Name: "bookmarks-for-ever", Answer: happens(slices.Repeat([]string{event("BOOKMARK", `{"metadata": {"resourceVersion": "20", "annotations": {"k8s.io/initial-events-end": "true"}}}`)}, 10_000)...), Shows: copied},
}

// rights are RBAC objects that are harmful as they are.
var rights = []Lie{
	{Name: "names-for-everybody", Answer: namesForEverybody, Shows: copied.reports("RBACRead=True")},
	{Name: "rights-that-change", Answer: changesRights, Shows: copied.reports("RBACRead=True")},
}

// redirects lead to a server that must not see the token.
var redirects = []Lie{
	redirect("redirect-all", http.StatusFound, toAll, func(thief, _ string) string { return thief }),
	redirect("redirect-lists", http.StatusTemporaryRedirect, toLists, func(thief, _ string) string { return thief }),
	redirect("redirect-for-good", http.StatusPermanentRedirect, toLists, func(thief, _ string) string { return thief }),
	redirect("redirect-to-http", http.StatusMovedPermanently, toLists, func(_, clear string) string { return clear }),
	redirect("redirect-all-to-http", http.StatusSeeOther, toAll, func(_, clear string) string { return clear }),
	redirect("redirect-to-itself", http.StatusFound, toLists, func(string, string) string { return "" }),
}

func redirect(name string, code int, where func(*Request) bool, to func(thief, clear string) string) Lie {
	return Lie{Name: name, Shows: complains.reports("redirect"), Redirect: func(r *Request, thief, clear string) (int, string) {
		if !where(r) {
			return 0, ""
		}
		return code, to(thief, clear) + r.URL.RequestURI()
	}}
}
