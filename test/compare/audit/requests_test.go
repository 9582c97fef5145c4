// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// request is one request that both clusters get.
type request struct {
	// name distinguishes it from the others.
	name               string
	user, method, path string
	header             http.Header
	body               string
	// leaves is set if the client goes as soon as the body begins.
	leaves bool
	// exec is set if a command is run and fails.
	exec, fails bool
	// ownAnswer is set if Tripod answers in other words on purpose.
	ownAnswer bool
	// breaks is set if the answer may be missing.
	breaks bool
	// settles is a text that has to be in the object before the request.
	settles string
}

func (r request) headers(id string) http.Header {
	header := http.Header{"User-Agent": {"audit-test/1.0 (ü; \"x\")"}, "Accept": {"application/json"}}
	if r.body != "" {
		header.Set("Content-Type", "application/json")
	}
	for name, values := range r.header {
		header[name] = values
	}
	if r.user == emptyBearer {
		header.Set("Authorization", "Bearer ")
	}
	if id != "" {
		header.Set(auditHeader, id)
	}
	return header
}

func get(name, user, path string) request {
	return request{name: name, user: user, method: http.MethodGet, path: path}
}

func (r request) with(name string, values ...string) request {
	header := http.Header{name: values}
	for name, values := range r.header {
		header[name] = values
	}
	r.header = header
	return r
}

func (r request) as(user string) request {
	r.user = user
	return r
}

func (r request) called(name string) request {
	r.name = name
	return r
}

func send(name, method, path, contentType, body string) request {
	return request{name: name, user: admin, method: method, path: path, body: body}.with("Content-Type", contentType)
}

// Paths of collections that are served by core, by extensions, and by the aggregator itself.
var collections = map[string]string{
	"configmaps":  "/api/v1/namespaces/test/configmaps",
	"widgets":     "/apis/example.com/v1/namespaces/test/widgets",
	"apiservices": "/apis/apiregistration.k8s.io/v1/apiservices",
}

// object returns a manifest.
func object(resource, name, data string) string {
	kind := map[string]string{"configmaps": `"v1","kind":"ConfigMap"`, "widgets": `"example.com/v1","kind":"Widget"`}[resource]
	return fmt.Sprintf(`{"apiVersion":%s,"metadata":{"name":%q,"labels":{"of":"test"}},"data":{"color":%q}}`, kind, name, data)
}

// create returns the creation of an object.
func create(resource, name string) request {
	return request{name: "create " + name, user: admin, method: http.MethodPost, path: collections[resource], body: object(resource, name, "red")}
}

// requests are sent in this order.
func requests() []request {
	var all []request
	for _, resource := range []string{"configmaps", "widgets"} {
		for _, r := range objectRequests(resource) {
			all = append(all, r.called(resource+": "+r.name))
		}
	}
	for _, resource := range []string{"configmaps", "widgets", "apiservices"} {
		for _, r := range identityRequests(collections[resource]) {
			all = append(all, r.called(resource+": "+r.name))
		}
	}
	return append(append(append(all, streamRequests()...), coreRequests()...), aggregatorRequests()...)
}

// objectRequests are what clients do with objects.
func objectRequests(resource string) []request {
	path := collections[resource]
	one := path + "/one"
	apply := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"applied"},"data":{"color":"blue"}}`,
		map[string]string{"configmaps": "v1", "widgets": "example.com/v1"}[resource], map[string]string{"configmaps": "ConfigMap", "widgets": "Widget"}[resource])
	// Stock's handler of custom resources panics over it.
	protobuf := send("create from protobuf that is none", http.MethodPost, path, "application/vnd.kubernetes.protobuf", "nonsense")
	protobuf.breaks = true
	return []request{
		create(resource, "one"),
		create(resource, "one").called("create again"),
		create(resource, "two"),
		create(resource, "noted"),
		send("create without a name", http.MethodPost, path, "application/json", object(resource, "", "red")),
		send("create with a wrong name", http.MethodPost, path, "application/json", object(resource, "A B", "red")),
		send("create from nonsense", http.MethodPost, path, "application/json", "{nonsense"),
		send("create of another kind", http.MethodPost, path, "application/json", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`),
		protobuf,
		send("create of an unknown type", http.MethodPost, path, "text/plain", "hello"),
		send("create, dry run", http.MethodPost, path+"?dryRun=All&fieldManager=me&fieldValidation=Strict", "application/json", object(resource, "dry", "red")),
		send("create, bad dry run", http.MethodPost, path+"?dryRun=Some", "application/json", object(resource, "dry", "red")),
		get("get", admin, one),
		get("get as a table", admin, one).with("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
		get("get something missing", admin, path+"/missing"),
		get("get with an escaped slash", admin, path+"/a%2Fb"),
		get("get with slashes", admin, strings.Replace(one, "/namespaces/", "//namespaces//", 1)),
		get("get with a query", admin, one+"?pretty=true&x=%20%2f+&x=&;"),
		{name: "head", user: admin, method: http.MethodHead, path: one},
		{name: "options", user: admin, method: http.MethodOptions, path: one},
		{name: "an unknown verb", user: admin, method: "FROB", path: one},
		get("list", admin, path+"?labelSelector=of%3Dtest"),
		get("list in pages", admin, path+"?limit=1"),
		get("list of a bad selector", admin, path+"?labelSelector=%21%21"),
		get("list everywhere", robot, strings.Replace(path, "/namespaces/test", "", 1)+"?fieldSelector=metadata.name%3Done"),
		send("update", http.MethodPut, one, "application/json", object(resource, "one", "green")),
		send("update, conflict", http.MethodPut, one, "application/json", strings.Replace(object(resource, "one", "x"), `"name"`, `"resourceVersion":"1","name"`, 1)),
		send("merge patch", http.MethodPatch, one, "application/merge-patch+json", `{"data":{"size":"1"}}`),
		send("JSON patch", http.MethodPatch, one, "application/json-patch+json", `[{"op":"replace","path":"/data/color","value":"white"}]`),
		send("JSON patch that fails", http.MethodPatch, one, "application/json-patch+json", `[{"op":"test","path":"/data/color","value":"black"}]`),
		send("strategic patch", http.MethodPatch, one, "application/strategic-merge-patch+json", `{"data":{"size":"2"}}`),
		send("apply", http.MethodPatch, path+"/applied?fieldManager=me", "application/apply-patch+yaml", apply),
		send("apply, dry run", http.MethodPatch, path+"/applied?fieldManager=me&dryRun=All", "application/apply-patch+yaml", strings.Replace(apply, "blue", "black", 1)),
		send("apply, conflict", http.MethodPatch, path+"/applied?fieldManager=you", "application/apply-patch+yaml", strings.Replace(apply, "blue", "grey", 1)),
		{name: "delete, dry run", user: admin, method: http.MethodDelete, path: one + "?dryRun=All"},
		send("delete with options", http.MethodDelete, path+"/two", "application/json", `{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}`),
		{name: "delete something missing", user: admin, method: http.MethodDelete, path: path + "/missing"},
		{name: "delete collection, dry run", user: admin, method: http.MethodDelete, path: path + "?labelSelector=of%3Dtest&dryRun=All"},
		{name: "watch that ends by itself", user: admin, method: http.MethodGet, path: path + "?watch=1&timeoutSeconds=1&labelSelector=of%3Dtest"},
		{name: "watch that the client leaves", user: admin, method: http.MethodGet, path: path + "?watch=1&labelSelector=of%3Dtest", leaves: true},
		{
			name: "watch list", user: robot, method: http.MethodGet, leaves: true,
			path: path + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
		},
		get("watch from a bad version", admin, path+"?watch=1&resourceVersion=old"),
		get("watch without rights", alice, path+"?watch=1"),
		{name: "delete collection", user: admin, method: http.MethodDelete, path: path + "?labelSelector=of%3Dtest"},
	}
}

// identityRequests are a list by all kinds of users.
func identityRequests(path string) []request {
	impersonating := func(name, user string, headers ...string) request {
		r := get(name, user, path)
		for i := 0; i+1 < len(headers); i += 2 {
			r = r.with(headers[i], append(r.header[headers[i]], headers[i+1])...)
		}
		return r
	}
	return []request{
		get("allowed", robot, path+"?limit=1"),
		get("forbidden", alice, path),
		get("anonymous", anonymous, path),
		get("bad token", badToken, path),
		get("password", basicAuth, path),
		get("empty token", emptyBearer, path),
		get("token of a pod", robotOnNode, path+"?limit=1"),
		get("stale token", staleRobot, path+"?limit=1"),
		get("legacy token", legacyRobot, path+"?limit=1"),
		get("two blanks before the token", anonymous, path).with("Authorization", "Bearer  nonsense"),
		impersonating("by an authenticating proxy", behindProxy, "X-Remote-User", "guest", "X-Remote-Group", "visitors", "X-Remote-Extra-Example.com%2fdoor", "back"),
		impersonating("by an authenticating proxy without a name", behindProxy, "X-Remote-Group", "visitors"),
		get("forwarded", robot, path+"?limit=1").with("X-Forwarded-For", "192.0.2.1"),
		get("forwarded twice", alice, path).with("X-Forwarded-For", "192.0.2.1, 2001:db8::1,nonsense", "192.0.2.7"),
		get("real address", alice, path).with("X-Real-Ip", "192.0.2.2").with("X-Forwarded-For", "192.0.2.3"),
		get("headers of other proxies", alice, path).with("X-Real-Ip", "192.0.2.2").with("Forwarded", "for=192.0.2.4").with("Via", "1.1 proxy").with("X-Forwarded-Host", "h").with("X-Forwarded-Uri", "/u"),
		get("identity headers that are not believed", alice, path).with("X-Remote-User", "admin").with("X-Remote-Group", "system:masters").with("Tripod-Envelope", "CgcKBWFkbWlu"),

		impersonating("impersonating", director, "Impersonate-User", "actor"),
		impersonating("impersonating with all there is", director, "Impersonate-User", "actor", "Impersonate-Group", "stage", "Impersonate-Group", "crew",
			"Impersonate-Uid", "uid-1", "Impersonate-Extra-Scene", "one", "Impersonate-Extra-Scene", "two"),
		impersonating("impersonating a service account", director, "Impersonate-User", "system:serviceaccount:test:robot"),
		impersonating("impersonating nobody", admin, "Impersonate-User", "system:anonymous"),
		impersonating("impersonating without a user", director, "Impersonate-Group", "stage"),
		impersonating("impersonating an unknown extra", director, "Impersonate-User", "actor", "Impersonate-Extra-Curtain", "x"),
		impersonating("impersonating without rights", alice, "Impersonate-User", "actor"),
		impersonating("impersonating someone without rights", admin, "Impersonate-User", "alice"),
		impersonating("nobody impersonating", anonymous, "Impersonate-User", "actor"),
		impersonating("bad token impersonating", badToken, "Impersonate-User", "actor"),

		impersonating("constrained: user", constrained, "Impersonate-User", "actor"),
		impersonating("constrained: user again", constrained, "Impersonate-User", "actor"),
		impersonating("constrained: user and group", constrained, "Impersonate-User", "actor", "Impersonate-Group", "stage"),
		impersonating("constrained: another group", constrained, "Impersonate-User", "actor", "Impersonate-Group", "crew"),
		impersonating("constrained: service account", constrained, "Impersonate-User", "system:serviceaccount:test:robot"),
		impersonating("constrained: node", constrained, "Impersonate-User", "system:node:node-1"),
		impersonating("constrained: other node", constrained, "Impersonate-User", "system:node:node-2"),
		impersonating("constrained: other verb", constrained, "Impersonate-User", "actor").on(path + "/one"),
		impersonating("constrained: own node", robotOnNode, "Impersonate-User", "system:node:node-1"),
		impersonating("constrained: another's node", robotOnNode, "Impersonate-User", "system:node:node-2"),
	}
}

func (r request) on(path string) request {
	r.path = path
	return r
}

// streamRequests are those whose connections are taken over, and what else is asked of a kubelet.
func streamRequests() []request {
	const exec = "/api/v1/namespaces/test/pods/pod/exec?container=main&command=cat&stdin=true&stdout=true"
	return []request{
		{name: "exec", user: admin, method: http.MethodPost, path: exec, exec: true},
		{name: "exec by GET", user: admin, method: http.MethodGet, path: exec, exec: true},
		{name: "exec behind a proxy", user: admin, method: http.MethodPost, path: exec, exec: true, header: http.Header{"X-Forwarded-For": {"192.0.2.1"}}},
		{name: "exec without rights", user: alice, method: http.MethodPost, path: exec, exec: true, fails: true},
		{name: "exec by nobody", user: anonymous, method: http.MethodPost, path: exec, exec: true, fails: true},
		{name: "exec with a bad token", user: badToken, method: http.MethodPost, path: exec, exec: true, fails: true},
		{
			name: "exec impersonating", user: director, method: http.MethodPost, path: exec, exec: true, fails: true,
			header: http.Header{"Impersonate-User": {"actor"}},
		},
		get("logs", admin, "/api/v1/namespaces/test/pods/pod/log?container=main"),
		get("proxy to a pod without an address", admin, "/api/v1/namespaces/test/pods/pod:80/proxy/a/b?c=d"),
		{name: "watch as a WebSocket", user: admin, method: http.MethodGet, path: collections["widgets"] + "?watch=1", header: http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		}},
	}
}

// coreRequests are those for which core adds annotations to the audit log.
func coreRequests() []request {
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"other"},"spec":{"containers":[{"name":"main","image":"none"}]}}`
	post := func(name, path string, body any) request {
		return send(name, http.MethodPost, path, "application/json", marshal(body))
	}
	type m = map[string]any
	return []request{
		send("pod security", http.MethodPost, "/api/v1/namespaces/test/pods", "application/json", strings.Replace(pod, `"spec":{`, `"spec":{"automountServiceAccountToken":false,"serviceAccountName":"robot",`, 1)),
		send("pod of a missing account", http.MethodPost, "/api/v1/namespaces/test/pods?dryRun=All", "application/json", pod),
		get("deprecated in core", admin, "/api/v1/namespaces/test/endpoints"),
		get("deprecated in extensions", admin, "/apis/example.com/v1alpha1/namespaces/test/widgets"),
		post("token request", "/api/v1/namespaces/test/serviceaccounts/robot/token", m{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": m{}}),
		post("token review", "/apis/authentication.k8s.io/v1/tokenreviews", m{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": m{"token": "nonsense"}}),
		post("self review", "/apis/authentication.k8s.io/v1/selfsubjectreviews", m{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).as(alice),
		post("access review", "/apis/authorization.k8s.io/v1/subjectaccessreviews", m{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
			"spec": m{"user": "actor", "resourceAttributes": m{"group": "example.com", "resource": "widgets", "verb": "list"}},
		}),
		post("self access review", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", m{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": m{"nonResourceAttributes": m{"path": "/metrics", "verb": "get"}},
		}).as(alice),
		get("scale", admin, collections["widgets"]+"/missing/scale"),
		send("escalation", http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles", "application/json",
			marshal(m{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": m{"name": "x"}})).as(robot),
	}
}

// missingServer has a path that an APIService claims for a Service that does not exist. kube-apiserver reports that in
// plain text, Tripod in a Status with a Retry-After.
const missingServer = "/apis/nowhere.example.com/v1/things"

// aggregatorRequests are those that are not about an object of a backend.
func aggregatorRequests() []request {
	apiService := marshal(map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.nowhere.example.com"},
		"spec": map[string]any{
			"group": "nowhere.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": "test", "name": "nowhere"},
		},
	})
	patch := send("APIService, patch", http.MethodPatch, collections["apiservices"]+"/v1.nowhere.example.com", "application/merge-patch+json", `{"spec":{"versionPriority":11}}`)
	patch.settles = "ServiceNotFound"
	all := []request{
		send("APIService", http.MethodPost, collections["apiservices"], "application/json", apiService),
		send("APIService, dry run", http.MethodPost, collections["apiservices"]+"?dryRun=All", "application/json", strings.ReplaceAll(apiService, "nowhere", "elsewhere")),
		patch,
		{name: "APIServices, watch", user: admin, method: http.MethodGet, path: collections["apiservices"] + "?watch=1", leaves: true},
	}
	for _, path := range []string{
		"/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/example.com", "/apis/example.com/v1", "/apis/apiregistration.k8s.io",
		"/version", "/healthz", "/livez/ping", "/readyz", "/openapi/v3", "/openid/v1/jwks", "/.well-known/openid-configuration",
		"/unknown", "/unknown/path?x=1", "/api/v2", "/apis/unknown.example.com", "/apis/unknown.example.com/v1/things", "/apis/example.com/v1/unknown", "/api/v1/unknown",
		"/apis/apps/v9/deployments", "/logs", "/debug/pprof", "/ui", missingServer, missingServer + "/a",
	} {
		for _, user := range []string{admin, alice, anonymous, badToken} {
			r := get(path+" by "+user, user, path)
			r.ownAnswer = user == admin && strings.HasPrefix(path, missingServer)
			all = append(all, r)
		}
	}
	return append(all,
		get("discovery in one document", admin, "/apis").with("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
		get("missing server, impersonating", director, missingServer).with("Impersonate-User", "actor"),
		get("discovery, impersonating", director, "/apis").with("Impersonate-User", "actor"),
		get("unknown path, forwarded", alice, "/unknown").with("X-Forwarded-For", "192.0.2.1"),
		get("unknown path, impersonating", admin, "/unknown").with("Impersonate-User", "alice"),
		send("APIService, delete", http.MethodDelete, collections["apiservices"]+"/v1.nowhere.example.com", "application/json", "{}"),
	)
}

func marshal(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // maps and strings can be encoded
	}
	return string(data)
}
