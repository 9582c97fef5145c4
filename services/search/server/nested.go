// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tripod-k8s/tripod/services/search/rights"
)

// Prefixes of paths. Below resources/ is the API of all clusters, and below resources/clusters/NAME/ that of one.
const (
	resourcesPrefix = "/apis/clusterpedia.io/v1beta1/resources/"
	clustersPrefix  = resourcesPrefix + "clusters/"

	collectionsPrefix = "/apis/clusterpedia.io/v1beta1/collectionresources/"
)

// class is what a nested request asks for.
type class int

const (
	// classObjects is an object or a list of objects, and classRelations what is related to an object.
	classObjects class = iota
	classRelations
	// classSubresource is another subresource of an object, which search does not have.
	classSubresource
	// classReview is a question about the rights of its own user.
	classReview
	// classCollection is a collection. It is not inside of another request: Info is that of the request itself.
	classCollection
	// classClusters are the names of all clusters.
	classClusters
	classOpenAPI
	classDiscovery
	classVersion
	classHealth
	// classOther is what search does not have.
	classOther
)

// Nested is a request inside of another one, for the objects of clusters.
type Nested struct {
	// Cluster is empty for all clusters.
	Cluster string
	// Path is the path in the API of the clusters, such as /apis/apps/v1/deployments.
	Path string
	// Info is what the request is in that API.
	Info *request.RequestInfo

	class class
	// collection is the name of a collection, and document that of an OpenAPI document: empty for the index.
	collection, document string
	// discovered is what a discovery document is about.
	discovered discovered
}

// discovered is what a discovery document is about: a group-version, a group, or all groups if both are empty. All is the core group with
// core, and all others without.
type discovered struct {
	core bool
	schema.GroupVersion
}

// prefixOf returns what is before the paths of the API of a cluster, or of all if the name is empty.
func prefixOf(cluster string) string {
	if cluster == "" {
		return strings.TrimSuffix(resourcesPrefix, "/")
	}
	return clustersPrefix + cluster
}

// infos reads the paths of the API of a cluster.
var infos = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// nestedIn returns the request inside of a request with this path, or nil. method is that of HTTP.
func nestedIn(method, path string, watch bool) *Nested {
	if collection, ok := strings.CutPrefix(path, collectionsPrefix); ok {
		if method != http.MethodGet || collection == "" || strings.Contains(collection, "/") {
			return nil
		}
		return &Nested{class: classCollection, collection: collection, Path: path, Info: &request.RequestInfo{Path: path}}
	}
	rest, ok := strings.CutPrefix(path, resourcesPrefix)
	if !ok {
		return nil
	}
	n := &Nested{Path: "/" + rest}
	inCluster, ofClusters := strings.CutPrefix(path, clustersPrefix)
	if ofClusters {
		n.Cluster, rest, _ = strings.Cut(inCluster, "/")
		n.Path = "/" + rest
	}
	inner := &http.Request{Method: method, URL: &url.URL{Path: n.Path}}
	if watch {
		inner.URL.RawQuery = "watch=true"
	}
	// Only a query can make it fail.
	n.Info, _ = infos.NewRequestInfo(inner)
	n.Info.Path = path
	n.ofNamespace()
	if n.Info.Verb == "head" {
		n.Info.Verb = "get"
	}
	if n.classify(); n.Cluster == "" && (ofClusters || rest == "clusters") {
		n.class = classClusters
	}
	return n
}

// classify sets what the request asks for, by its path in the API of the clusters.
func (n *Nested) classify() {
	document, isOpenAPI := strings.CutPrefix(n.Path, openAPIPath)
	switch {
	case isReview(n):
		n.class = classReview
	case n.Info.Subresource == relationsSubresource:
		n.class = classRelations
	case n.Info.Subresource != "":
		n.class = classSubresource
	case n.Info.IsResourceRequest:
		n.class = classObjects
	case isOpenAPI && (document == "" || document[0] == '/'):
		n.class, n.document = classOpenAPI, strings.Trim(document, "/")
	case n.Path == versionPath:
		n.class = classVersion
	case isHealth(n.Path):
		n.class = classHealth
	default:
		n.class = classOther
		if of, ok := discoveredAt(n.Path); ok {
			n.class, n.discovered = classDiscovery, of
		}
	}
}

// discoveredAt returns what the discovery document at a path is about.
func discoveredAt(path string) (of discovered, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	prefix, rest := parts[0], parts[1:]
	if slices.Contains(rest, "") {
		return of, false
	}
	switch {
	case prefix == "api" && len(rest) <= 1:
		of.core = true
	case prefix == "apis" && len(rest) <= 2:
		if len(rest) > 0 {
			of.Group, rest = rest[0], rest[1:]
		}
	default:
		return of, false
	}
	if len(rest) > 0 {
		of.Version = rest[0]
	}
	return of, true
}

// ofNamespace has a request for the relations of a Namespace be one, which Kubernetes takes for one for objects of a resource relations.
func (n *Nested) ofNamespace() {
	info := n.Info
	if info.APIGroup == "" && info.Resource == relationsSubresource && info.Namespace != "" && info.Name == "" {
		info.Resource, info.Name, info.Subresource = "namespaces", info.Namespace, relationsSubresource
		info.Parts = []string{info.Resource, info.Name, info.Subresource}
		if info.Verb == "list" || info.Verb == "watch" {
			info.Verb = "get"
		}
	}
}

// isWatch reads the parameter watch, as RequestInfoFactory does.
func isWatch(values url.Values) bool {
	return values.Has("watch") && values.Get("watch") != "false" && values.Get("watch") != "0"
}

// Resource returns the resource that the request is for.
func (n *Nested) Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: n.Info.APIGroup, Version: n.Info.APIVersion, Resource: n.Info.Resource}
}

// Namespace returns the namespace of the objects that the request is for. RequestInfo says of a Namespace that it is in itself, for
// authorizers.
func (n *Nested) Namespace() string {
	if n.Resource().GroupResource() == (schema.GroupResource{Resource: "namespaces"}) {
		return ""
	}
	return n.Info.Namespace
}

// RequestInfo returns what a request is: the nested one if there is one. It notes that for the authorizer and the handler, so that a path
// is read once.
func RequestInfo(req *http.Request, info *request.RequestInfo) *request.RequestInfo {
	values := req.URL.Query()
	n := nestedIn(req.Method, info.Path, isWatch(values))
	if n == nil {
		return info
	}
	if n.class == classCollection {
		n.Info = info
	}
	storeNested(req.Context(), n)
	if n.class != classCollection && n.Cluster == "" && n.Info.IsResourceRequest {
		// The authorizer gets the clusters, by their label.
		n.Info.LabelSelector = clustersOf(values)
	}
	return n.Info
}

// configureNested has a server answer the requests inside of other requests.
func configureNested(config *genericapiserver.Config, of *rights.Rights, before func(http.Handler) *Handler) {
	config.RequestInfoResolver = resolver{genericapiserver.NewRequestInfoResolver(config)}
	config.Authorization.Authorizer = NewAuthorizer(config.Authorization.Authorizer, of)
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(served http.Handler, c *genericapiserver.Config) http.Handler {
		return WithRequestState(build(before(served), c))
	}
}

// resolver reads requests as Kubernetes does, and then looks for a nested one.
type resolver struct{ request.RequestInfoResolver }

// NewRequestInfo implements request.RequestInfoResolver.
func (r resolver) NewRequestInfo(req *http.Request) (*request.RequestInfo, error) {
	info, err := r.RequestInfoResolver.NewRequestInfo(req)
	if err != nil {
		return nil, err
	}
	return RequestInfo(req, info), nil
}
