// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/openapi"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	documentTitle     = "Kubernetes"
	bearerTokenScheme = "BearerToken"
)

// ApplyDocuments sets up discovery, and OpenAPI documents for the given definitions. The schemes have kinds that client-go does not
// have.
func ApplyDocuments(config *genericapiserver.Config, generated openapicommon.GetOpenAPIDefinitions, schemes ...*runtime.Scheme) {
	config.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")

	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generated)
	namer := openapinamer.NewDefinitionNamer(append(documentSchemes(), schemes...)...)
	bearerToken := &spec.SecurityScheme{SecuritySchemeProps: spec.SecuritySchemeProps{
		Type:        "apiKey",
		Name:        "authorization",
		In:          "header",
		Description: "Bearer Token authentication",
	}}

	v2 := genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	v2.Info.Title = documentTitle
	v2.SecurityDefinitions = &spec.SecurityDefinitions{bearerTokenScheme: bearerToken}
	config.OpenAPIConfig = v2

	v3 := genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	v3.Info.Title = documentTitle
	v3.SecuritySchemes = spec3.SecuritySchemes{
		bearerTokenScheme: &spec3.SecurityScheme{SecuritySchemeProps: spec3.SecuritySchemeProps{
			Type:        bearerToken.Type,
			Name:        bearerToken.Name,
			In:          bearerToken.In,
			Description: bearerToken.Description,
		}},
	}
	config.OpenAPIV3Config = v3
}

// documentSchemes are the schemes with all group-versions of kube-apiserver. OpenAPI documents list each of them for DeleteOptions and
// WatchEvent. Some are missing in the scheme of client-go. Those of the aggregator and of extensions have only these kinds here, because
// their types would make each API service 1 MB larger: the service that has the types documents them.
func documentSchemes() []*runtime.Scheme {
	internal := runtime.NewScheme()
	utilruntime.Must(admissionv1.AddToScheme(internal))
	utilruntime.Must(admissionv1beta1.AddToScheme(internal))
	utilruntime.Must(imagepolicyv1alpha1.AddToScheme(internal))
	for _, group := range []string{"apiextensions.k8s.io", "apiregistration.k8s.io"} {
		for _, version := range []string{"v1", "v1beta1"} {
			metav1.AddToGroupVersion(internal, schema.GroupVersion{Group: group, Version: version})
		}
	}
	return []*runtime.Scheme{clientgoscheme.Scheme, internal}
}
