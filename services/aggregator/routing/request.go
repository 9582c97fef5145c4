// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/tripod-k8s/tripod/base/service"
)

// Request is the class of a request: its owner, and how it may be treated on its way. WithRequest makes it once, from the method,
// the URL and the headers. It does not depend on the sender, and does not change.
type Request struct {
	Target
	// Info is the class that kube-apiserver's filters use.
	Info *request.RequestInfo
	Kind Kind

	// LongRunning is set if the request lasts until the client or the object ends it. The rule is kube-apiserver's, but
	// additional services may also nest watches, and declare subresources of their own.
	LongRunning bool
	// Upgrade is set if the client says "Connection: Upgrade". By that alone kube-aggregator sends it to an aggregated API server.
	Upgrade bool
	// Tunnel is set if the client also says to which protocol, so that its connection may become a tunnel.
	Tunnel bool
	// Connect is set if the method is CONNECT.
	Connect bool
	// Plain is set if neither request nor answer can have more than a header and a body: no 1xx, no trailers, no other protocol.
	Plain bool
	// Repeatable is set if a second execution does no harm: the request only reads.
	Repeatable bool
	// Holdable is set if the answer ends by itself, soon. The aggregator may hold it until it is complete.
	Holdable bool
	// Eviction is set if status 429 is the answer of a disruption budget, not of an overloaded replica.
	Eviction bool
	// Resource is what a request is for if a replica may keep a watch cache of it for itself: custom resources, and what additional backends
	// serve. Otherwise it is empty.
	Resource schema.GroupResource

	// table knows which resources exist. It is nil in a request that the aggregator has made.
	table *Table
}

// Kind says what a request is for.
type Kind int

const (
	// NonResource requests are for anything that is no API object, like /version and discovery documents.
	NonResource Kind = iota
	// Object requests are for one object or a list of objects.
	Object
	// Watch requests get one event after another.
	Watch
	// PassedOn requests, like exec, are answered by a kubelet, pod or service, or by an additional service in a subresource that it declares
	// as long-running.
	PassedOn
)

// acting are the subresources that change something, whatever the method is.
var acting = sets.NewString("attach", "exec", "portforward")

// infos has the prefixes of kube-apiserver's paths.
var infos = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// Classify returns the class of a request that the target answers. It fails where kube-apiserver's RequestInfoFactory does: the path has
// no meaning.
func Classify(req *http.Request, target Target) (*Request, error) {
	info, err := infos.NewRequestInfo(req)
	r := &Request{
		Target:      target,
		Info:        info,
		Kind:        kindOf(info),
		LongRunning: service.LongRunning(req, info),
		Upgrade:     httpstream.IsUpgradeRequest(req),
		Connect:     req.Method == http.MethodConnect,
		Eviction:    info.Subresource == "eviction",
	}
	if nestsWatch(req, target.Owner, info) {
		r.Kind, r.LongRunning = Watch, true
	}
	r.complete(req)
	return r, err
}

// complete sets what follows from the kind and the duration.
func (r *Request) complete(req *http.Request) {
	info := r.Info
	r.Tunnel = r.Upgrade && req.Header.Get("Upgrade") != ""
	r.Plain = (r.Kind == Object || r.Kind == Watch) &&
		req.Header["Upgrade"] == nil && len(req.Header["Expect"]) == 0 && len(req.Trailer) == 0
	r.Repeatable = onlyReads(req.Method) && !r.Tunnel && !acting.Has(info.Subresource)
	r.Holdable = !r.LongRunning && !r.Tunnel
	if info.IsResourceRequest && dividesResources(r.Owner, info.APIGroup) {
		r.Resource = schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	}
}

// nestsWatch reports whether a request is a watch inside of a request for a subresource. API services answer them that have the APIs of
// other clusters below a resource.
func nestsWatch(req *http.Request, owner Owner, info *request.RequestInfo) bool {
	if owner.ServesCustomResources() || !dividesResources(owner, info.APIGroup) || info.Verb != "get" || info.Subresource == "" {
		return false
	}
	watch, has := req.URL.Query()["watch"]
	return has && watch[0] != "false" && watch[0] != "0"
}

// dividesResources reports whether the replicas of an owner may divide the resources of a group among themselves.
func dividesResources(owner Owner, group string) bool {
	return group != apiExtensionsGroup && (owner.ServesCustomResources() || owner.Additional())
}

func kindOf(info *request.RequestInfo) Kind {
	switch {
	case !info.IsResourceRequest:
		return NonResource
	case service.PassedOn(info):
		return PassedOn
	case info.Verb == "watch":
		return Watch
	}
	return Object
}

func onlyReads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// WithRequest classifies each request before the next handler. It refuses those that a backend could read in another way.
func (t *Table) WithRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if ambiguous(req.URL) {
			http.Error(w, "400 Bad Request: the target of a request starts with /", http.StatusBadRequest)
			return
		}
		r, err := t.classify(req)
		if err != nil {
			responsewriters.InternalError(w, req, fmt.Errorf("failed to create RequestInfo: %w", err)) // as kube-apiserver
			return
		}
		next.ServeHTTP(w, req.WithContext(r.In(req.Context())))
	})
}

// ambiguous reports whether a request has another target than a path: "GET x:http://host/api", "CONNECT host:443". Its path would be empty
// here, and not where an HTTP client has sent it on.
func ambiguous(u *url.URL) bool {
	return u.Opaque != "" || !strings.HasPrefix(u.Path, "/") && u.Path != "*"
}

func (t *Table) classify(req *http.Request) (*Request, error) {
	r, err := Classify(req, t.RouteURL(req.URL))
	r.table = t
	if !r.LongRunning && t.declared(r) {
		r.Kind, r.LongRunning = PassedOn, true
		r.complete(req)
	}
	return r, err
}

// declared reports whether the owner of a request has declared its subresource as long-running.
func (t *Table) declared(r *Request) bool {
	if !r.Info.IsResourceRequest || r.Info.Subresource == "" || !dividesResources(r.Owner, r.Info.APIGroup) {
		return false
	}
	of := t.current.Load().longRunning[r.Owner]
	return len(of) > 0 && of[subresourceOf(r.Info)]
}

// subresourceOf returns what a request is for, with the subresource in the form pods/log.
func subresourceOf(info *request.RequestInfo) schema.GroupVersionResource {
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if info.Subresource != "" {
		gvr.Resource += "/" + info.Subresource
	}
	return gvr
}

type requestKey struct{}

// In returns a context with the class of a request, for Of and for kube-apiserver's filters.
func (r *Request) In(ctx context.Context) context.Context {
	return context.WithValue(request.WithRequestInfo(ctx, r.Info), requestKey{}, r)
}

// Renew returns a request that the aggregator itself has made, with a class of its own. Its context may be that of a client's request,
// which has another class.
func Renew(req *http.Request) (*http.Request, error) {
	r, err := Classify(req, Target{})
	if err != nil {
		return nil, err
	}
	return req.WithContext(r.In(req.Context())), nil
}

// From returns the class that In put into a context, or nil.
func From(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Of returns the class of a request. One that did not come through WithRequest, because the aggregator has made it, has no Target.
func Of(req *http.Request) *Request {
	if r := From(req.Context()); r != nil {
		return r
	}
	r, _ := Classify(req, Target{}) // an error leaves the rest of the class as it is
	return r
}

// Resolver is the request.RequestInfoResolver of kube-apiserver's filters. It makes no second RequestInfo.
type Resolver struct{}

// NewRequestInfo returns the Info of the request's class.
func (Resolver) NewRequestInfo(req *http.Request) (*request.RequestInfo, error) {
	if r := From(req.Context()); r != nil {
		return r.Info, nil
	}
	return infos.NewRequestInfo(req)
}

// IsLongRunning is the request.LongRunningRequestCheck of kube-apiserver's filters.
func IsLongRunning(req *http.Request, _ *request.RequestInfo) bool {
	return Of(req).LongRunning
}
