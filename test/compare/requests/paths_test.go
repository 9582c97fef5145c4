// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"net/http"
	"strings"
)

// paths asks for paths that are not, or not quite, those of an API.
var paths = append(unusualMethods(), []request{
	post("/", `{}`),
	get("/unknown"),
	get("/unknown").accept(protobufType),
	get("/unknown").accept("application/yaml"),
	get("/unknown/"),
	get("/favicon.ico"),
	get("/api/v1/unknown"),
	get("/api/v1/unknown").accept("application/yaml"),
	get("/api/v1/unknown").accept(protobufType),
	get("/api/v1/namespaces/compared/unknown"),
	get("/api/v1/namespaces/compared/unknown/name"),
	get("/api/v1/namespaces/compared/pods/name/unknown"),
	get("/api/v1/namespaces/compared/configmaps/name/status"),
	get("/api/v9/pods"),
	get("/api/v1/pods/"),
	get("/api/v1//pods"),
	get("//api/v1/pods"),
	get("/api/v1/./pods"),
	get("/api/v1/../v1/pods"),
	get("/api/v1/namespaces/compared%2Fpods"),
	get("/api/v1/namespaces/compared/configmaps/%2e%2e"),
	get("/API/v1/pods"),
	get("/apis/apps/v1/unknown"),
	get("/apis/apps/v1/namespaces/compared/unknown"),
	get("/apis/apps/v9/deployments"),
	get("/apis//v1/pods"),
	get("/apis/apps//deployments"),
	get("/apis/apps//deployments").accept("application/yaml"),
	get("/apis/apps/v1//deployments"),
	get("/apis/apps/v1/namespaces//deployments"),
	get("/apis/example.com//widgets"),
	get("/apis/example.com/v1//widgets"),
	get("/apis/unknown.example.com//things"),
	get("/apis/apiregistration.k8s.io//apiservices"),
	get("/apis/apiregistration.k8s.io/v1//apiservices"),
	get("/apis/apiextensions.k8s.io//customresourcedefinitions"),
	get("/api//pods"),
	get("/api//v1/pods"),
	get("/apis//apps/v1/deployments"),
	get("/apis/unknown.example.com/v1/things"),
	get("/apis/unknown.example.com/v1/things").accept(protobufType),
	get("/apis/unknown.example.com/v1/namespaces/compared/things/name"),
	get("/apis/example.com/v1/unknown"),
	get("/apis/example.com/v1/unknown").accept("application/yaml"),
	get("/apis/example.com/v9/widgets"),
	get("/apis/example.com/v1alpha1/widgets"),
	get("/apis/example.com/v1/gadgets"),
	get("/apis/unseen.example.com/v1/ghosts"),
	get("/apis/example.com/v1/namespaces/compared/widgets/name/unknown"),
	get("/apis/example.com/v1beta1/namespaces/compared/widgets/name/scale"),
	get("/apis/space.example.com/v2beta1/planets/name/status"),
	get("/apis/space.example.com/v2beta1/namespaces/compared/planets"),
	get("/apis/space.example.com/v2beta1/planets/name/extra/path"),
	get("/apis/example.com/v1/Widgets"),
	get("/apis/example.com/v1/widget"),
	get("/apis/apiregistration.k8s.io/v1/unknown"),
	get("/apis/apiregistration.k8s.io/v9/apiservices"),
	get("/apis/apiregistration.k8s.io/v1/apiservices/v1.apps/unknown"),
	get("/apis/apiextensions.k8s.io/v1/unknown"),
	get("/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions"),
	get("/api/v1/watch/namespaces/compared/unknown"),
	get("/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"),
	get("/apis/scheduling.k8s.io/v1alpha1/workloads"),
	get("/logs/"),
	get("/logs"),
	get("/ui"),
	get("/apis/apps/v1/namespaces/compared/deployments/name/scale/extra"),
	get("/openapi/v4"),
	get("/.well-known/unknown"),
	get("/openid/v1/unknown"),
	get("/healthz/unknown"),
	get("/metrics/unknown"),
	get("/debug/unknown"),
	get("/proxy/unknown"),
	get("/version/"),
	get("/version?a;b"),
	get("/api/v1/configmaps?labelSelector=%%"),
	get("/" + strings.Repeat("long", 500)).called("a long path"),
}...)

// unusualMethods sends every method to one path of each kind.
func unusualMethods() []request {
	methods := []string{
		http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, "PURGE",
	}
	targets := []string{
		"/unknown", "/version", "/healthz", "/openid/v1/jwks", "/apis/apps/v1", "/apis/example.com/v1", "/apis/unknown.example.com/v1",
		"/api/v1/pods", "/api/v1/namespaces/unknown/configmaps/unknown", "/api/v1/unknown",
		"/apis/example.com/v1/namespaces/unknown/widgets/unknown", "/apis/example.com/v1/widgets",
		"/apis/example.com/v1/namespaces/unknown/widgets/unknown/scale", "/apis/example.com/v1/unknown",
		"/apis/apiregistration.k8s.io/v1/apiservices/unknown", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/unknown/status",
		"/apis/unknown.example.com/v1/things/name",
	}
	var requests []request
	for _, method := range methods {
		for _, target := range targets {
			requests = append(requests, send(method, target))
		}
	}
	for _, target := range targets {
		requests = append(requests, send(http.MethodConnect, target).as(http1)) // HTTP/2 has no paths in CONNECT
	}
	return requests
}
