// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// tooLarge is more than the 3 MiB that an API server reads of a body.
var tooLarge = strings.Repeat("x", 3<<20+1)

// failures are requests for things that are there, but not like that.
var failures = append(failuresOfKinds(), []request{
	post(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"no-namespace"}}`).called("create with the namespace of the path"),
	post(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`).called("another namespace than that of the path"),
	post("/api/v1/namespaces/unknown/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`),
	post("/apis/example.com/v1/namespaces/unknown/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red"}}`),
	post("/api/v1/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"compared"}}`),
	post("/apis/example.com/v1/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"compared"},"spec":{"color":"red"}}`),

	get(configMaps + "?resourceVersion=999999999999").called("a resource version that is not there yet").ignoringBody(),
	get(configMaps + "?resourceVersion=nonsense"),
	get(widgets + "?resourceVersion=nonsense"),
	get(configMaps + "?limit=nonsense"),
	get(configMaps + "?continue=nonsense"),
	get(widgets + "?continue=nonsense"),
	get("/apis/apiregistration.k8s.io/v1/apiservices?continue=nonsense"),
	get(configMaps + "?fieldSelector=data.a=b"),
	get(widgets + "?fieldSelector=spec.size=10"),
	get(crds + "?fieldSelector=spec.group=a"),
	get("/apis/apiregistration.k8s.io/v1/apiservices?fieldSelector=spec.group=a"),
	get(configMaps + "?labelSelector=a in"),
	get(configMaps + "?labelSelector=a%20in"),
	get(widgets + "?labelSelector=a%20in"),
	get("/apis/apiregistration.k8s.io/v1/apiservices?labelSelector=a%20in"),
	get(configMaps + "?resourceVersionMatch=Exact"),
	get(widgets + "?resourceVersionMatch=Unknown&resourceVersion=1"),
	get(configMaps + "?watch=1&resourceVersion=1&timeoutSeconds=5").firstEvents(1).called(watchFromThePast),
	get(widgets + "?watch=1&resourceVersion=1&timeoutSeconds=5").firstEvents(1).called(watchFromThePast + ", custom resource"),
	get(configMaps + "?watch=1&sendInitialEvents=true").called("initial events without bookmarks"),
	get(widgets + "?watch=1&sendInitialEvents=true").called("initial events without bookmarks, custom resource"),

	patch(jsonPatch, configMaps+"/failing", manyOperations(10001)).called("a JSON patch with too many operations"),
	patch(jsonPatch, widgets+"/failing", manyOperations(10001)).called("a JSON patch with too many operations, custom resource"),
	patch(strategicPatch, widgets+"/failing", `{"spec":{"color":"red"}}`),
	post("/api/v1/namespaces/compared/pods/failing/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"failing"}}`),
	get(pods + "/failing/log"),
	get(pods + "/failing/exec?command=ls"),
	post(pods+"/failing/portforward", ``),
	get("/api/v1/namespaces/compared/services/failing/proxy/"),
	get("/api/v1/nodes/unknown/proxy/"),
	post("/api/v1/namespaces/compared/serviceaccounts/unknown/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`),
	post("/api/v1/namespaces/compared/serviceaccounts/robot/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":1}}`),
	post(rbac+"/clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"x"}}`),
	put("/api/v1/namespaces/default/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"compared"}}`).called("finalize another namespace"),
	del("/api/v1/namespaces/kube-system"),
	del("/api/v1/namespaces/default"),
}...)

// large returns an object that servers compress for clients that accept it.
func large(apiVersion, kind string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"large","annotations":{"large":%q}}}`, apiVersion, kind, strings.Repeat("large ", 25_000))
}

func manyOperations(n int) string {
	return "[" + strings.Repeat(`{"op":"test","path":"/kind","value":"x"},`, n-1) + `{"op":"test","path":"/kind","value":"x"}]`
}

// kind is a resource of one of the services, and an object of it that is valid.
type kind struct {
	name, path, valid string
	// invalid does not pass validation, wrong does not pass decoding.
	invalid, wrong string
	apiVersion     string
}

var kinds = []kind{
	{
		name: "ConfigMap", apiVersion: "v1", path: configMaps,
		valid:   `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"failing"},"data":{"a":"b"}}`,
		invalid: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"Failing!"},"data":{"a b":"c"}}`,
		wrong:   `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"failing"},"data":[1]}`,
	},
	{
		name: "Widget", apiVersion: "example.com/v1", path: widgets,
		valid:   `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"failing"},"spec":{"color":"red"}}`,
		invalid: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"failing"},"spec":{"color":"pink","minimum":2,"maximum":1}}`,
		wrong:   `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"failing"},"spec":[1]}`,
	},
	{
		name: "Planet", apiVersion: "space.example.com/v2beta1", path: planets,
		valid:   `{"apiVersion":"space.example.com/v2beta1","kind":"Planet","metadata":{"name":"failing"},"anything":{"goes":1}}`,
		invalid: `{"apiVersion":"space.example.com/v2beta1","kind":"Planet","metadata":{"name":"Failing!"}}`,
		wrong:   `{"apiVersion":"space.example.com/v2beta1","kind":"Planet","metadata":{"name":1}}`,
	},
	{
		name: "CustomResourceDefinition", apiVersion: "apiextensions.k8s.io/v1", path: crds,
		valid: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"failings.failing.example.com"},
			"spec":{"group":"failing.example.com","scope":"Cluster","names":{"plural":"failings","kind":"Failing"},"versions":[
			{"name":"v1","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
		invalid: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"failings.k8s.io"},
			"spec":{"group":"k8s.io","scope":"Universe","names":{"plural":"failings","kind":"Failing"},"versions":[
			{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"objec"}}}]}}`,
		wrong: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"failings.failing.example.com"},"spec":[]}`,
	},
	{
		name: "APIService", apiVersion: "apiregistration.k8s.io/v1", path: "/apis/apiregistration.k8s.io/v1/apiservices",
		valid: `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.failing.example.com"},
			"spec":{"group":"failing.example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":10,
			"insecureSkipTLSVerify":true,"service":{"namespace":"compared","name":"failing"}}}`,
		invalid: `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.failing.example.com"},
			"spec":{"group":"other.example.com","version":"v1","groupPriorityMinimum":0,"versionPriority":99999,"caBundle":"eA==",
			"insecureSkipTLSVerify":true,"service":{"namespace":"","name":""}}}`,
		wrong: `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.failing.example.com"},"spec":[]}`,
	},
	{
		name: "Deployment", apiVersion: "apps/v1", path: "/apis/apps/v1/namespaces/compared/deployments",
		valid: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"failing"},"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"a"}]}}}}`,
		invalid: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"failing"},"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[]}}}}`,
		wrong: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"failing"},"spec":{"replicas":"many"}}`,
	},
}

// failuresOfKinds has what can go wrong with any resource go wrong with one of each service.
func failuresOfKinds() []request {
	var requests []request
	for _, k := range kinds {
		add := func(name string, r request) { requests = append(requests, r.called(k.name+": "+name)) }
		named := k.path + "/" + nameOf(k)
		withVersion := strings.Replace(k.valid, `"metadata":{`, `"metadata":{"resourceVersion":"1",`, 1)
		otherUID := strings.Replace(k.valid, `"metadata":{`, `"metadata":{"uid":"00000000-0000-0000-0000-000000000000",`, 1)

		add("not found", get(named))
		add("not found as protobuf", get(named).accept(protobufType))
		add("not found as YAML", get(named).accept("application/yaml"))
		add("not found as a table", get(named).accept(tableType))
		add("not acceptable", get(named).accept("image/png"))
		add("CBOR", get(k.path).accept(cborType))
		add("forbidden get", get(named).as(nobody))
		add("forbidden list", get(k.path).as(nobody))
		add("forbidden watch", get(k.path+"?watch=1").as(nobody))
		add("forbidden create", post(k.path, k.valid).as(nobody))
		add("forbidden delete of all", del(k.path).as(nobody))
		add("anonymous", get(named).as(anonymous))
		add("unauthorized", get(named).as(invalidToken))
		add("patch of what is not there", patch(mergePatch, named, `{"metadata":{"labels":{"a":"b"}}}`))
		add("replace what is not there", put(named, k.valid))
		add("replace what is not there at a version", put(named, withVersion))
		add("delete what is not there", del(named))
		add("not JSON", post(k.path, `{"apiVersion"`))
		add("empty", post(k.path, ``))
		add("no object", post(k.path, `[]`))
		add("no kind", post(k.path, `{"metadata":{"name":"failing"}}`))
		add("another kind", post(k.path, strings.Replace(k.valid, `"kind":"`+k.name, `"kind":"Secret`, 1)))
		add("another version", post(k.path, strings.Replace(k.valid, k.apiVersion, "other.example.com/v7", 1)))
		add("no name", post(k.path, strings.NewReplacer(`"name":"failing"`, `"labels":{}`, `"name":"`+nameOf(k)+`"`, `"labels":{}`).Replace(k.valid)))
		add("with a version", post(k.path, withVersion))
		add("wrong types", post(k.path, k.wrong))
		add("invalid", post(k.path, k.invalid))
		add("unsupported media type", post(k.path, k.valid).body("text/csv", k.valid))
		add("CBOR is off", post(k.path, k.valid).body(cborType, "\xd9\xd9\xf7\xa0"))
		add("protobuf that is none", post(k.path, k.valid).body(protobufType, "nonsense"))
		add("no media type", post(k.path+"?dryRun=All", k.valid).body("", k.valid))
		add("too large", post(k.path, k.valid).body(jsonType, `{"a":"`+tooLarge+`"}`))
		add("unknown dry run", post(k.path+"?dryRun=Some", k.valid))
		add("unknown field validation", post(k.path+"?fieldValidation=Some", k.valid))
		add("dry run", post(k.path+"?dryRun=All", k.valid))
		add("create", post(k.path, k.valid))
		add("already exists", post(k.path, k.valid))
		add("already exists, dry run", post(k.path+"?dryRun=All", k.valid))
		add("conflict", put(named, withVersion))
		add("another UID", put(named, otherUID))
		add("another name", put(named, strings.Replace(k.valid, `"name":"`+nameOf(k), `"name":"x`+nameOf(k), 1)))
		add("unknown patch type", patch("application/unknown-patch", named, `{}`))
		add("patch without a type", send("PATCH", named).body("", `{}`))
		add("patch with plain JSON", patch(jsonType, named, `{}`))
		add("patch that is none", patch(mergePatch, named, `{`))
		add("empty patch", patch(mergePatch, named, ``))
		add("JSON patch that is none", patch(jsonPatch, named, `{"op":"add"}`))
		add("JSON patch of an unknown path", patch(jsonPatch, named, `[{"op":"remove","path":"/metadata/labels/unknown"}]`))
		add("JSON patch whose test fails", patch(jsonPatch, named, `[{"op":"test","path":"/kind","value":"x"}]`))
		add("patch of the name", patch(mergePatch, named, `{"metadata":{"name":"other"}}`))
		add("patch at another version", patch(mergePatch, named, `{"metadata":{"resourceVersion":"1"}}`))
		add("apply without a manager", patch(applyPatch, named, k.valid))
		add("apply that is no YAML", apply("a", named, "{a"))
		add("apply with managed fields", apply("a", named, strings.Replace(k.valid, `"metadata":{`, `"metadata":{"managedFields":[{"manager":"x"}],`, 1)))
		add("delete with a precondition", del(named).body(jsonType, `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"other"}}`))
		add("delete with wrong options", del(named).body(jsonType, `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Unknown"}`))
		add("delete with options that are none", del(named).body(jsonType, `{`))
		add("delete with a query that is none", del(named+"?gracePeriodSeconds=soon"))
		if k.path == crds { // their status comes by and by, and they go when their objects are gone
			add("delete", del(named).ignoringBody())
			continue
		}
		add("delete, dry run", del(named+"?dryRun=All"))
		add("delete", del(named))
		add("gone", get(named))
	}
	return requests
}

// afterFailures returns when the CustomResourceDefinition is gone.
func (s *side) afterFailures(ctx context.Context) error {
	return s.waitForStatus(ctx, crds+"/failings.failing.example.com", http.StatusNotFound)
}

func nameOf(k kind) string {
	_, after, _ := strings.Cut(k.valid, `"metadata":{"name":"`)
	name, _, found := strings.Cut(after, `"`)
	if !found {
		panic(fmt.Sprintf("the valid %s has no name", k.name))
	}
	return name
}
