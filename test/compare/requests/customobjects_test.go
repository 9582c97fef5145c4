// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

const widget = `
apiVersion: example.com/v1
kind: Widget
metadata: {name: first, labels: {a: b}}
spec:
  color: red
  replicas: 2
  parts: [{name: left, weight: 1}, {name: right, weight: 2kg}]
  free: {anything: [1, two]}
status: {phase: ignored}
`

// customObjects writes and reads custom resources and their definitions.
var customObjects = []request{
	post(widgets, widget),
	get(widgets + "/first"),
	post(widgets, large("example.com/v1", "Widget")).ignoringBody().called("create a large widget"),
	get(widgets).header("Accept-Encoding", "gzip"),
	get(widgets).header("Accept-Encoding", "gzip").accept(tableType),
	send("HEAD", widgets).header("Accept-Encoding", "gzip"),
	del(widgets + "/large").ignoringBody(),
	get(widgets + "/first").accept("application/yaml"),
	get(widgets + "/first").accept(protobufType).failing(),
	get(widgets + "/first").accept(protobufType + "," + jsonType).called("protobuf if it can be"),
	get(widgets + "/first").accept(tableType),
	get(widgets + "/first").accept(metadataType),
	get(widgets + "/first").accept("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
	get(widgets + "/first?pretty=true"),
	send("HEAD", widgets+"/first"),
	get("/apis/example.com/v1beta1/namespaces/compared/widgets/first"),
	get("/apis/example.com/v1beta1/namespaces/compared/widgets"),
	get("/apis/example.com/v1alpha1/namespaces/compared/widgets/first").failing(),
	get(widgets).accept(tableType),
	get("/apis/example.com/v1/widgets").accept(tableType),
	get("/apis/example.com/v1/widgets").accept(metadataListType),
	get("/apis/example.com/v1/widgets").as(nobody).failing(),
	get(widgets + "?fieldSelector=spec.color%3Dred"),
	get(widgets + "?fieldSelector=spec.color%3Dblue"),
	get(widgets + "?labelSelector=a%3Db"),
	post(widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"second"},"spec":{"color":"blue"}}`).called("create a second widget"),
	get(widgets + "?limit=1"),
	post(widgets+"?fieldValidation=Strict", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"strict"},"spec":{"color":"red","unknown":1}}`).failing(),
	post(widgets+"?fieldValidation=Warn", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"warned"},"spec":{"color":"red","color":"blue","unknown":1}}`),
	post(widgets+"?fieldValidation=Ignore", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"ignored"},"spec":{"color":"red","unknown":1}}`),
	post("/apis/example.com/v1beta1/namespaces/compared/widgets", `{"apiVersion":"example.com/v1beta1","kind":"Widget","metadata":{"name":"old"},"spec":{"color":"red"}}`),
	post(widgets, `{"apiVersion":"example.com/v1beta1","kind":"Widget","metadata":{"name":"mixed"},"spec":{"color":"red"}}`).called("create with another served version").failing(),
	post(widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"no-spec"}}`).called("create without a spec"),
	post(widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"rule"},"spec":{"color":"red","minimum":2,"maximum":1}}`).called("create against a CEL rule").failing(),
	patch(jsonPatch, widgets+"/first", `[{"op":"replace","path":"/spec/size","value":20}]`),
	patch(mergePatch, widgets+"/first", `{"spec":{"minimum":1}}`),
	patch(mergePatch, widgets+"/first", `{"spec":{"size":1000}}`).called("patch to something invalid").failing(),
	patch(mergePatch, widgets+"/first?dryRun=All", `{"spec":{"size":30}}`),
	patch(mergePatch, widgets+"/first", `{"status":{"phase":"ignored"}}`).called("patch of the status where it is ignored"),
	patch(mergePatch, widgets+"/first/status", `{"status":{"phase":"Ready","replicas":1,"selector":"a=b"},"spec":{"size":1}}`),
	get(widgets + "/first/status"),
	get(widgets + "/first/scale"),
	get(widgets + "/first/scale").accept(protobufType).failing(),
	get(widgets + "/first/scale").accept(tableType),
	put(widgets+"/first/scale", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"first","namespace":"compared"},"spec":{"replicas":7}}`),
	patch(mergePatch, widgets+"/first/scale", `{"spec":{"replicas":8}}`),
	patch(mergePatch, widgets+"/first/scale", `{"spec":{"replicas":-1}}`).called("scale to less than nothing").failing(),
	apply("one", widgets+"/first", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: first}\nspec: {color: green, parts: [{name: top}]}\n").called("apply conflict with an update").failing(),
	apply("one", widgets+"/first?force=true", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: first}\nspec: {color: green, parts: [{name: top}]}\n"),
	apply("two", widgets+"/first", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: first}\nspec: {color: blue, parts: [{name: bottom}]}\n").failing(),
	apply("two", "/apis/example.com/v1beta1/namespaces/compared/widgets/first", "apiVersion: example.com/v1beta1\nkind: Widget\nmetadata: {name: first}\nspec: {color: green}\n"),
	get(widgets),
	del(widgets + "/second"),
	del(widgets + "/second?propagationPolicy=Foreground").called("delete again").failing(),

	post(planets, `{"apiVersion":"space.example.com/v2beta1","kind":"Planet","metadata":{"name":"earth","finalizers":["example.com/stay"]},"moons":1,"deep":{"er":[{"a":1}]}}`),
	get(planets).accept(tableType),
	get(planets),
	del(planets + "/earth"),
	post(planets, `{"apiVersion":"space.example.com/v2beta1","kind":"Planet","metadata":{"name":"earth"}}`).called("create what is being deleted").failing(),
	patch(mergePatch, planets+"/earth", `{"metadata":{"finalizers":null}}`),
	get(planets + "/earth").failing(),
	post(planets, `{"apiVersion":"space.example.com/v2beta1","kind":"Planet","metadata":{"name":"mars","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"00000000-0000-0000-0000-000000000000"}]}}`).called("create with an owner"),
	del(planets + "?labelSelector=a%3Db").called("delete a collection"),
	del(planets).called("delete all").ignoringBody(),

	get(crds),
	get(crds).accept(tableType),
	get(crds + "/widgets.example.com").accept(protobufType),
	get(crds + "/widgets.example.com/status"),
	get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").accept(metadataListType),
	patch(mergePatch, crds+"/widgets.example.com?dryRun=All", `{"spec":{"scope":"Cluster"}}`).called("change the scope").failing(),
	patch(mergePatch, crds+"/widgets.example.com?dryRun=All", `{"spec":{"group":"other.example.com"}}`).called("change the group").failing(),
	patch(jsonPatch, crds+"/widgets.example.com?dryRun=All", `[{"op":"replace","path":"/spec/versions/0/storage","value":false}]`).called("no storage version").failing(),
	post(crds+"?dryRun=All", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.things.k8s.io"},
		"spec":{"group":"things.k8s.io","scope":"Cluster","names":{"plural":"things","kind":"Thing"},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`).called("protected group without approval").failing(),
	post(crds+"?dryRun=All", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},
		"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"things","kind":"Thing"},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"string"}},
		"x-kubernetes-validations":[{"rule":"self.b == 1"}]}}}]}}`).called("CEL rule that does not compile").failing(),
	post(crds+"?dryRun=All&fieldValidation=Warn", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},
		"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"things","kind":"Thing"},"unknown":1,"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"string","format":"unheard-of"}}}}}]}}`).called("unknown field and format in a definition"),
}
