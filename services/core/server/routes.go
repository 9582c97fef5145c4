// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"sync"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// routes selects the routes of kube-apiserver, and remembers them for reads of objects and collections. go-restful compares a path with
// all routes of its group-version: a selection in BenchmarkRoutes takes 22 µs and 4.9 KB without the memory, and 0.14 µs with it.
type routes struct {
	restful.CurlyRouter
	lock       sync.RWMutex
	remembered map[read]selected
}

// read is all that the route of a read depends on.
type read struct {
	prefix, group, version, resource string
	inNamespace, ofObject            bool
	accept                           string
}

type selected struct {
	service *restful.WebService
	route   *restful.Route
}

const (
	// mostRoutes bounds the memory for routes. There are some 200 for reads, each for a few values of Accept.
	mostRoutes = 4096
	// longestAccept is the longest value of Accept in bytes that is remembered.
	longestAccept = 256
)

// SelectRoute implements restful.RouteSelector.
func (r *routes) SelectRoute(services []*restful.WebService, req *http.Request) (*restful.WebService, *restful.Route, error) {
	key, ok := readOf(req)
	if !ok {
		return r.CurlyRouter.SelectRoute(services, req)
	}
	r.lock.RLock()
	known, ok := r.remembered[key]
	r.lock.RUnlock()
	if ok {
		return known.service, known.route, nil
	}
	service, route, err := r.CurlyRouter.SelectRoute(services, req)
	if err == nil {
		r.remember(key, selected{service, route})
	}
	return service, route, err
}

func (r *routes) remember(key read, s selected) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.remembered == nil || len(r.remembered) >= mostRoutes {
		r.remembered = map[read]selected{}
	}
	r.remembered[key] = s
}

// readOf returns false if the route may depend on more than a read has: on the body, on other headers, or on other parts of the path.
func readOf(req *http.Request) (read, bool) {
	info, ok := request.RequestInfoFrom(req.Context())
	accept := req.Header["Accept"]
	switch {
	case !ok || !info.IsResourceRequest || info.Subresource != "":
		return read{}, false
	case req.Method != http.MethodGet || req.ContentLength != 0 || len(req.Header["Content-Type"]) != 0:
		return read{}, false
	case len(accept) > 1 || len(accept) == 1 && len(accept[0]) > longestAccept:
		return read{}, false
	case len(req.URL.Path) != pathLength(info): // such as an old path of a watch
		return read{}, false
	}
	key := read{
		prefix: info.APIPrefix, group: info.APIGroup, version: info.APIVersion, resource: info.Resource,
		inNamespace: info.Namespace != "", ofObject: info.Name != "",
	}
	if len(accept) == 1 {
		key.accept = accept[0]
	}
	return key, true
}

// pathLength is the length of the path of an object or a collection. A path with this length has no other parts, because info has parts
// of it.
func pathLength(info *request.RequestInfo) int {
	length := 0
	for _, part := range []string{info.APIPrefix, info.APIGroup, info.APIVersion, info.Resource, info.Name} {
		if part != "" {
			length += len("/") + len(part)
		}
	}
	if info.Namespace != "" {
		length += len("/namespaces/") + len(info.Namespace)
	}
	return length
}
