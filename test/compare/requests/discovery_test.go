// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// bootstrap reads what an API server has made for itself.
var bootstrap = []request{
	get("/version"),
	get("/version").as(anonymous),
	get("/version").as(nobody),
	get("/api/v1/namespaces"),
	get("/api/v1/namespaces").accept(tableType),
	get(rbac + "/clusterroles"),
	get(rbac + "/clusterrolebindings"),
	get(rbac + "/roles"),
	get(rbac + "/rolebindings"),
	get(rbac + "/clusterroles/cluster-admin").accept(protobufType),
	get("/apis/apiregistration.k8s.io/v1/apiservices"),
	get("/apis/apiregistration.k8s.io/v1/apiservices").accept(tableType),
	get("/apis/apiregistration.k8s.io/v1/apiservices").accept(protobufType),
	get("/apis/apiregistration.k8s.io/v1/apiservices").accept(metadataListType),
	get("/apis/apiregistration.k8s.io/v1/apiservices?labelSelector=kube-aggregator.kubernetes.io/automanaged"),
	get("/apis/apiregistration.k8s.io/v1/apiservices/v1."),
	get("/apis/apiregistration.k8s.io/v1/apiservices/v1.apps/status"),
	get("/apis/apiregistration.k8s.io/v1/apiservices?limit=3"),
	get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"),
	get("/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"),
	get("/apis/scheduling.k8s.io/v1/priorityclasses"),
	get("/apis/networking.k8s.io/v1/servicecidrs"),
	get("/apis/networking.k8s.io/v1/ipaddresses"),
	get("/apis/coordination.k8s.io/v1/leases").called("leases of API servers"),
	get("/apis/storage.k8s.io/v1/storageclasses"),
	get("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
	get("/apis/certificates.k8s.io/v1/certificatesigningrequests"),
	get(crds),
	get("/api/v1/services"),
	get("/api/v1/endpoints"),
	get("/apis/discovery.k8s.io/v1/endpointslices"),
	get("/api/v1/configmaps"),
	get("/api/v1/secrets"),
	get("/api/v1/serviceaccounts"),
	get("/api/v1/nodes"),
	get("/api/v1/componentstatuses").ignoringBody(), // they show a scheduler and a controller manager on this host
}

// discovery reads the discovery documents in all their forms.
var discovery = []request{
	get("/"),
	get("/").as(anonymous),
	get("/api"),
	get("/api").accept(protobufType),
	get("/api").accept("application/yaml"),
	get("/api").accept(discoveryV2),
	get("/api").accept(discoveryV2Beta1),
	get("/api").accept(discoveryProtobuf),
	get("/api").as(nobody),
	get("/api").as(anonymous),
	get("/api/"),
	get("/api/v1"),
	get("/api/v1").accept(protobufType),
	get("/api/v1/"),
	get("/api/v2"),
	get("/apis"),
	get("/apis/"),
	get("/apis").accept(protobufType),
	get("/apis").accept("application/yaml"),
	get("/apis").accept(discoveryV2),
	get("/apis").accept(discoveryV2Beta1),
	get("/apis").accept(discoveryProtobuf),
	get("/apis").accept(discoveryV2 + "," + discoveryV2Beta1 + "," + jsonType).called("aggregated discovery as client-go asks for it"),
	get("/apis").accept(discoveryV2 + ";profile=nopeer"),
	get("/apis").accept(discoveryV2 + ";profile=unknown"),
	get("/apis").accept("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList"),
	get("/apis").accept(discoveryV2).as(nobody),
	get("/apis").accept(discoveryV2).header("If-None-Match", `"nonsense"`),
	get("/apis").accept("text/html"),
	get("/apis").accept("image/png"),
	get("/apis").as(anonymous),
	get("/apis").as(serviceAccount),
	send("HEAD", "/apis"),
	send("POST", "/apis"),
	send("DELETE", "/api"),
	send("OPTIONS", "/apis"),
	get("/apis?pretty=1"),
	get("/apis").header("Accept-Encoding", "gzip").ignoringBody(),
	get("/apis").accept(discoveryV2).header("Accept-Encoding", "gzip").ignoringBody(),
	get("/apis/unknown.example.com"),
	get("/apis/unknown.example.com/v1"),
	get("/apis/apps/v9"),
	get("/apis/example.com/v1alpha1"),
	get("/apis/unseen.example.com"),
	get("/apis/unseen.example.com/v1"),
	get("/apis/example.com/v1").accept(protobufType),
	get("/apis/example.com/v1").as(nobody),
	get("/apis/example.com/v1").as(anonymous),
	get("/apis/example.com/v1/").called("a group-version with a slash at its end"),
	get("/apis/apps/v1/").called("a built-in group-version with a slash at its end"),
	get("/apis/apps/").called("a built-in group with a slash at its end"),
	get("/apis/example.com/").called("a group with a slash at its end"),
	get("/apis/apps").accept(protobufType),
	get("/apis/apps").accept(discoveryV2),
	get("/apis/apps/v1").accept(discoveryV2),
	get("/apis/example.com").accept(protobufType),
	get("/apis/example.com").accept("application/yaml"),
	get("/apis/example.com/v1").accept("application/yaml"),
	get("/apis/apps/v1").accept("application/yaml"),
	get("/apis/apps/v1").accept(tableType),
}

// discoveryDocuments reads the legacy documents of every group and version that stock has.
func discoveryDocuments(ctx context.Context, c *comparison) ([]request, error) {
	var list struct {
		Groups []struct {
			Name     string
			Versions []struct{ GroupVersion string }
		}
	}
	if err := c.stock.read(ctx, "/apis", &list); err != nil {
		return nil, err
	}
	var requests []request
	for _, group := range list.Groups {
		requests = append(requests, get("/apis/"+group.Name))
		for _, version := range group.Versions {
			requests = append(requests, get("/apis/"+version.GroupVersion))
		}
	}
	return requests, nil
}

// openAPI reads the documents for all groups.
var openAPI = []request{
	get("/openapi/v2"),
	get("/openapi/v2").accept(openAPIV2Protobuf),
	get("/openapi/v2").accept("application/com.github.proto-openapi.spec.v2.v1.0+protobuf"),
	get("/openapi/v2").accept("*/*").ignoringBody(),
	get("/openapi/v2").accept("text/html"),
	get("/openapi/v2").header("If-None-Match", `"nonsense"`).ignoringBody(),
	get("/openapi/v2").header("Accept-Encoding", "gzip").ignoringBody(),
	get("/openapi/v2").as(nobody).ignoringBody(),
	get("/openapi/v2").as(anonymous),
	send("POST", "/openapi/v2"),
	send("HEAD", "/openapi/v2"),
	get("/openapi/v2/").called("OpenAPI v2 with a slash at its end"),
	get("/openapi/v2/unknown"),
	get("/openapi"),
	get("/openapi/v3"),
	get("/openapi/v3/").called("OpenAPI v3 with a slash at its end"),
	get("/openapi/v3").as(nobody),
	get("/openapi/v3").as(anonymous),
	get("/openapi/v3").accept(openAPIV3Protobuf),
	send("POST", "/openapi/v3"),
	get("/openapi/v3/unknown"),
	get("/openapi/v3/apis/unknown.example.com/v1"),
	get("/openapi/v3/apis/example.com/v1alpha1"),
	get("/openapi/v3/apis/example.com/v1").accept(openAPIV3Protobuf),
	get("/openapi/v3/apis/apps/v1").accept(openAPIV3Protobuf),
	get("/openapi/v3/apis/apps/v1").accept("application/yaml"),
	get("/openapi/v3/apis/apps/v1").as(nobody).ignoringBody(),
	get("/openapi/v3/apis/apps/v1?hash=0123456789ABCDEF"),
	get("/openapi/v3/apis/example.com/v1?hash=0123456789ABCDEF"),
	get("/openapi/v3/apis/example.com/v1?hash=0123456789ABCDEF").accept(openAPIV3Protobuf),
	get("/openapi/v3/apis/example.com/v1?hash=0123456789ABCDEF").header("Accept-Encoding", "gzip"),
	get("/openapi/v3/apis/example.com/v1?hash=0123456789ABCDEF").header("Range", "bytes=0-9"),
	get("/openapi/v3/apis/example.com/v1?hash="),
	get("/openapi/v3/apis/apiextensions.k8s.io/v1?hash=0123456789ABCDEF"),
	get("/openapi/v3/apis/apiregistration.k8s.io/v1?hash=0123456789ABCDEF"),
	get("/openapi/v3/apis/unknown.example.com/v1?hash=0123456789ABCDEF"),
	send("HEAD", "/openapi/v3/apis/example.com/v1?hash=0123456789ABCDEF"),
	get("/openapi/v3/apis/apps/v1").header("Accept-Encoding", "gzip").ignoringBody(),
	get("/swagger.json"),
	get("/swagger-2.0.0.pb-v1"),
}

// openAPIDocuments reads every OpenAPI v3 document that stock has, by its path and by the URL with its hash.
func openAPIDocuments(ctx context.Context, c *comparison) ([]request, error) {
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := c.stock.read(ctx, "/openapi/v3", &index); err != nil {
		return nil, err
	}
	requests := make([]request, 0, len(index.Paths))
	for _, path := range slices.Sorted(maps.Keys(index.Paths)) {
		requests = append(requests,
			get("/openapi/v3/"+strings.TrimPrefix(path, "/")).called("OpenAPI v3 of "+path),
			get(index.Paths[path].ServerRelativeURL).called("OpenAPI v3 of "+path+" by its hash").ignoringBody())
	}
	return requests, nil
}
