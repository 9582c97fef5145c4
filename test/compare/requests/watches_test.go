// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

const initialEvents = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

// watches reads the first events of watches.
var watches = []request{
	get(widgets + "?watch=1&resourceVersion=0&timeoutSeconds=30").firstEvents(1),
	get(widgets + "?watch=1&timeoutSeconds=30").firstEvents(1),
	get(widgets + "?" + initialEvents + "&fieldSelector=metadata.name%3Dfirst").firstEvents(2),
	get(widgets + "?" + initialEvents + "&fieldSelector=metadata.name%3Dfirst").accept(tableType).firstEvents(2),
	get(widgets + "?" + initialEvents + "&fieldSelector=metadata.name%3Dfirst").accept(metadataType).firstEvents(2),
	get("/apis/example.com/v1beta1/namespaces/compared/widgets?" + initialEvents + "&fieldSelector=metadata.name%3Dfirst").firstEvents(2),
	get(widgets + "/first?watch=1&timeoutSeconds=30").firstEvents(1).called("watch of one object"),
	get(widgets + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dunknown").called("watch that ends"),
	get(widgets + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dunknown").accept("application/yaml").failing(),
	get(configMaps + "?" + initialEvents + "&fieldSelector=metadata.name%3Dapplied").firstEvents(2),
	get(configMaps + "?" + initialEvents + "&fieldSelector=metadata.name%3Dapplied").accept(tableType).firstEvents(2),
	get(configMaps + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dunknown").called("watch that ends, core"),
	get(configMaps + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dunknown").accept(protobufType).called("watch in protobuf that ends"),
	get("/api/v1/watch/namespaces/compared/configmaps/applied?resourceVersion=0&timeoutSeconds=30").firstEvents(1),
	get("/apis/apiregistration.k8s.io/v1/apiservices?" + initialEvents + "&fieldSelector=metadata.name%3Dv1.apps").firstEvents(2),
	get("/apis/apiregistration.k8s.io/v1/watch/apiservices/v1.apps?resourceVersion=0&timeoutSeconds=30").firstEvents(1),
	get(crds + "?" + initialEvents + "&fieldSelector=metadata.name%3Dplanets.space.example.com").firstEvents(2),
	get("/apis/apiextensions.k8s.io/v1/watch/customresourcedefinitions/planets.space.example.com?resourceVersion=0&timeoutSeconds=30").firstEvents(1),
	get("/apis/unknown.example.com/v1/things?watch=1").failing(),
	get("/apis/example.com/v1/unknown?watch=1").failing(),
	get(widgets + "?watch=1&resourceVersion=nonsense").failing(),
	get(configMaps + "?watch=1&resourceVersion=nonsense").failing(),
	get(widgets + "?watch=1&timeoutSeconds=nonsense").failing(),
}
