// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"net/http"
	"strings"
)

// The lies of lists and watches: what objects are, and what happens to them.

// with answers lists and watches of a resource with the honest object and others.
func with(resource string, objects ...string) func(http.ResponseWriter, *Request) bool {
	return func(w http.ResponseWriter, r *Request) bool {
		if r.Resource != resource || !r.IsList() {
			return false
		}
		sendObjects(w, r, true, append([]string{honestObject(resource)}, objects...)...)
		return true
	}
}

// withConfigMap is with of a config map whose metadata has more fields, or others.
func withConfigMap(metadata string) func(http.ResponseWriter, *Request) bool {
	return with("configmaps", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": `+metadata+`, "data": {"a": "b"}}`)
}

// named is the metadata of a config map with a name.
func named(name string) string {
	return fmt.Sprintf(`{"namespace": "default", "name": %s, "uid": "u", "resourceVersion": "6"}`, name)
}

// happens sends events after the honest list.
func happens(events ...string) func(http.ResponseWriter, *Request) bool {
	return func(w http.ResponseWriter, r *Request) bool {
		if r.Resource != "configmaps" || !r.Watch {
			return false
		}
		sendObjects(w, r, false, Object("configmaps", Honest, "5", ""))
		for _, e := range events {
			send(w, e)
		}
		<-r.Context().Done()
		return true
	}
}

// ends sends events after the honest list, and ends the watch.
func ends(events ...string) func(http.ResponseWriter, *Request) bool {
	return func(w http.ResponseWriter, r *Request) bool {
		if r.Resource != "configmaps" || !r.Watch {
			return false
		}
		sendObjects(w, r, false, Object("configmaps", Honest, "5", ""))
		for _, e := range events {
			send(w, e)
		}
		return true
	}
}

// floods sends changes of one object for ever.
func floods(w http.ResponseWriter, r *Request) bool {
	if r.Resource != "configmaps" || !r.Watch {
		return false
	}
	sendObjects(w, r, false, Object("configmaps", Honest, "5", ""))
	for i := 0; ; i++ {
		if _, err := fmt.Fprint(w, event("MODIFIED", Object("configmaps", "flood", fmt.Sprint(100+i), fmt.Sprintf(`, "data": {"n": "%d"}`, i)))); err != nil {
			return true
		}
	}
}

// pages answers lists page by page, and refuses streaming lists as old API servers do.
func pages(answer func(http.ResponseWriter, *Request)) func(http.ResponseWriter, *Request) bool {
	return func(w http.ResponseWriter, r *Request) bool {
		switch {
		case r.Resource != "configmaps" || r.Watch && !r.Streamed:
			return false
		case r.Streamed:
			refuse(http.StatusUnprocessableEntity)(w, r)
		default:
			answer(w, r)
		}
		return true
	}
}

// samePage sends the same page for ever.
func samePage(w http.ResponseWriter, _ *Request) {
	send(w, page("more", Object("configmaps", Honest, "5", "")))
}

// emptyPages sends pages without objects for ever.
func emptyPages(w http.ResponseWriter, _ *Request) { send(w, page("more")) }

// expiringPages lets the token of each first page expire.
func expiringPages(w http.ResponseWriter, r *Request) {
	if r.URL.Query().Get("continue") != "" {
		refuse(http.StatusGone)(w, r)
		return
	}
	samePage(w, r)
}

// nested is a value in so many arrays.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// unlike answers discovery of the core group with more resources.
func unlike(resources ...string) func(http.ResponseWriter, *Request) bool {
	honest := []string{resource("configmaps", "ConfigMap", true), resource("namespaces", "Namespace", false)}
	return answer(toResources, text(resourceList("v1", append(honest, resources...)...)))
}

// manyResources is discovery of a group with so many resources.
func manyResources(count int) string {
	all := make([]string, 0, count)
	for i := range count {
		all = append(all, resource(fmt.Sprint("lies", i), fmt.Sprint("Lie", i), true))
	}
	return resourceList("example.com/v1", all...)
}

// manyGroups is discovery of so many groups.
func manyGroups(count int) string {
	names := make([]string, 0, count)
	for i := range count {
		names = append(names, fmt.Sprintf("lies%d.example.com", i))
	}
	return groupList(names...)
}
