// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Request is a request of a client of a cluster.
type Request struct {
	*http.Request
	// Resource is the plural of the objects that it is about. It is empty for discovery.
	Resource string
	// Watch is set for watches, and Streamed for those that begin with a list.
	Watch, Streamed bool
}

func read(req *http.Request) *Request {
	r := &Request{Request: req}
	query := req.URL.Query()
	r.Watch, r.Streamed = query.Get("watch") == "true", query.Get("sendInitialEvents") == "true"
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	at := 2 // api/v1/RESOURCE
	if parts[0] == "apis" {
		at = 3 // apis/GROUP/VERSION/RESOURCE
	}
	if len(parts) > at && (parts[0] == "api" || parts[0] == "apis") {
		r.Resource = parts[at]
	}
	return r
}

// IsList reports whether the request asks for all objects of a resource, as a list or as the beginning of a watch.
func (r *Request) IsList() bool { return r.Resource != "" && (!r.Watch || r.Streamed) }

// Honest is the name of the objects that the server has.
const Honest = "honest"

// kinds are the resources of the server.
var kinds = map[string]struct{ apiVersion, kind, namespace string }{
	"configmaps":                {"v1", "ConfigMap", "default"},
	"namespaces":                {"v1", "Namespace", ""},
	"pods":                      {"v1", "Pod", "default"},
	"roles":                     {rbac, "Role", "default"},
	"rolebindings":              {rbac, "RoleBinding", "default"},
	"clusterroles":              {rbac, "ClusterRole", ""},
	"clusterrolebindings":       {rbac, "ClusterRoleBinding", ""},
	"customresourcedefinitions": {"apiextensions.k8s.io/v1", "CustomResourceDefinition", ""},
	"boats":                     {"example.com/v1", "Boat", "default"},
}

// shortNames are those of the resources, as other clusters have them.
var shortNames = map[string]string{"configmaps": "cm", "namespaces": "ns", "pods": "po", "boats": "bt"}

const rbac = "rbac.authorization.k8s.io/v1"

// Reader is a user who may list config maps of the server by its RBAC.
const Reader = "reader"

// granted are the fields of the RBAC objects that let Reader do so.
var granted = map[string]string{
	"roles":        `, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]`,
	"rolebindings": `, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "` + Honest + `"}, "subjects": [{"kind": "User", "name": "` + Reader + `"}]`,
}

// honestObject returns the text of the object that the server has of a resource.
func honestObject(resource string) string { return Object(resource, Honest, "5", granted[resource]) }

// Object returns the text of an object. more are additional fields, which begin with a comma.
func Object(resource, name, resourceVersion, more string) string {
	k := kinds[resource]
	namespace := ""
	if k.namespace != "" {
		namespace = fmt.Sprintf(`"namespace": %q, `, k.namespace)
	}
	return fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {%s"name": %q, "uid": "uid-%s-%[4]s", "resourceVersion": %[6]q, "creationTimestamp": "2026-01-01T00:00:00Z"}%s}`,
		k.apiVersion, k.kind, namespace, name, resource, resourceVersion, more)
}

// discovery are the documents with the resources of the cluster. A group has one version.
func discovery(path string) string {
	resources := func(groupVersion string, names ...string) string {
		var all []string
		for _, name := range names {
			all = append(all, resource(name, kinds[name].kind, kinds[name].namespace != ""))
		}
		return resourceList(groupVersion, all...)
	}
	switch path {
	case "/version":
		return `{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}`
	case "/api":
		return `{"kind": "APIVersions", "versions": ["v1"]}`
	case "/apis":
		return groupList("rbac.authorization.k8s.io", "apiextensions.k8s.io", "example.com")
	case "/api/v1":
		return resources("v1", "configmaps", "namespaces", "pods")
	case "/apis/" + rbac:
		return resources(rbac, "roles", "rolebindings", "clusterroles", "clusterrolebindings")
	case "/apis/apiextensions.k8s.io/v1":
		return resources("apiextensions.k8s.io/v1", "customresourcedefinitions")
	case "/apis/example.com/v1":
		return resources("example.com/v1", "boats")
	}
	return ""
}

func resource(name, kind string, namespaced bool) string {
	short := ""
	if shortNames[name] != "" {
		short = fmt.Sprintf(`"shortNames": [%q], `, shortNames[name])
	}
	return fmt.Sprintf(`{"name": %q, "singularName": "", "namespaced": %t, "kind": %q, %s"verbs": ["get", "list", "watch"]}`, name, namespaced, kind, short)
}

func resourceList(groupVersion string, resources ...string) string {
	return fmt.Sprintf(`{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": %q, "resources": [%s]}`, groupVersion, strings.Join(resources, ", "))
}

func groupList(names ...string) string {
	var groups []string
	for _, name := range names {
		groups = append(groups, fmt.Sprintf(`{"name": %q, "versions": [{"groupVersion": "%s/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "%[2]s/v1", "version": "v1"}}`, name, name))
	}
	return `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [` + strings.Join(groups, ", ") + `]}`
}

// send sends an answer. The client may be gone.
func send(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, text) //nolint:errcheck // the client is gone
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

// honest answers as a small cluster would.
func (s *Server) honest(w http.ResponseWriter, r *Request) {
	groupVersion, isGroup := strings.CutPrefix(r.URL.Path, "/apis/")
	switch text := discovery(r.URL.Path); {
	case text != "":
		send(w, text)
	case s.lie.Frames != nil && isGroup && r.Resource == "": // as an aggregated API server, of whichever group
		send(w, resourceList(groupVersion, resource("lies", "Lie", true)))
	case kinds[r.Resource].kind == "":
		w.WriteHeader(http.StatusNotFound)
		send(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	default:
		sendObjects(w, r, true, honestObject(r.Resource))
	}
}

// sendObjects answers a list or a watch with objects. With wait, a watch then stays open without events.
func sendObjects(w http.ResponseWriter, r *Request, wait bool, objects ...string) {
	if !r.Watch {
		send(w, page("", objects...))
		return
	}
	send(w, "") // the header
	if r.Streamed {
		for _, object := range objects {
			send(w, event("ADDED", object))
		}
		send(w, `{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"}}}}`+"\n")
	}
	if wait {
		<-r.Context().Done()
	}
}

func page(next string, objects ...string) string {
	return fmt.Sprintf(`{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "10", "continue": %q}, "items": [%s]}`, next, strings.Join(objects, ", "))
}

func event(kind, object string) string {
	return fmt.Sprintf(`{"type": %q, "object": %s}`, kind, object) + "\n"
}
