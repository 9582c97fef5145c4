// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// longRunning has the subresources whose requests last, in the form books/tail.
type longRunning map[schema.GroupVersionResource]bool

// declared returns the subresources that the author declares as long-running.
func (s *Service) declared() longRunning {
	all := longRunning{}
	for _, g := range s.Groups {
		for _, resource := range g.Resources {
			versions := resource.served()
			if len(versions) == 0 {
				versions = g.Versions
			}
			for _, name := range resource.longRunning() {
				for _, version := range versions {
					all[schema.GroupVersionResource{Group: g.Name, Version: version, Resource: name}] = true
				}
			}
		}
	}
	return all
}

// has reports whether a request is for one of the subresources.
func (l longRunning) has(info *request.RequestInfo) bool {
	return info.IsResourceRequest && info.Subresource != "" &&
		l[schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource + "/" + info.Subresource}]
}

// applyTo makes a server give requests for the subresources no deadline, no seat of priority and fairness, and two audit events. The
// server ends them when it stops.
func (l longRunning) applyTo(config *genericapiserver.Config) {
	if len(l) == 0 {
		return
	}
	others, build := config.LongRunningFunc, config.BuildHandlerChainFunc
	config.LongRunningFunc = func(req *http.Request, info *request.RequestInfo) bool {
		return others(req, info) || l.has(info)
	}
	stopping := config.DrainedNotify()
	config.BuildHandlerChainFunc = func(served http.Handler, c *genericapiserver.Config) http.Handler {
		return build(l.end(served, stopping), c)
	}
}

var errStopping = errors.New("the service stops")

// end cancels requests for the subresources when the channel closes: all other requests are done then, and the server breaks off what
// lasts.
func (l longRunning) end(next http.Handler, stopping <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if info, ok := request.RequestInfoFrom(req.Context()); !ok || !l.has(info) {
			next.ServeHTTP(w, req)
			return
		}
		ctx, cancel := context.WithCancelCause(req.Context())
		defer cancel(nil)
		go func() {
			select {
			case <-stopping:
				cancel(errStopping)
			case <-ctx.Done():
			}
		}()
		next.ServeHTTP(w, req.WithContext(ctx))
	})
}

// of returns the subresources of a group-version that are among those that the service serves, sorted.
func (l longRunning) of(gv schema.GroupVersion, served []string) []string {
	var names []string
	for gvr := range l {
		if gvr.GroupVersion() == gv && slices.Contains(served, gv.String()+" "+gvr.Resource) {
			names = append(names, gvr.Resource)
		}
	}
	slices.Sort(names)
	return names
}

// isSubresource reports whether a name has the form books/tail.
func isSubresource(name string) bool {
	resource, subresource, _ := strings.Cut(name, "/")
	return resource != "" && subresource != "" && !strings.Contains(subresource, "/")
}
