// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"net/http"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// Requests is for services that answer requests inside of other requests, such as for the objects of another cluster below the path of a
// resource. Each function may be nil.
type Requests struct {
	// Info returns what a request is, given what Kubernetes makes of its path. Authorization, audit, and priority and fairness go by it. Info
	// must not change what it is given.
	Info func(*http.Request, *request.RequestInfo) *request.RequestInfo
	// Authorizer returns what decides about requests, given what decides by the policy of the cluster.
	Authorizer func(authorizer.Authorizer) authorizer.Authorizer
	// KeepDecisions reports whether a decision of core about a request may be kept for a second, at most 4096 of all. A user must ask the same
	// again, selectors included. Without it, core is asked each time that the aggregator has not decided.
	KeepDecisions func(authorizer.Attributes) bool
	// Around returns what goes around the handler chain, before a request is authenticated, such as to add to its context what Authorizer
	// tells Handler.
	Around func(http.Handler) http.Handler
	// Handler returns what answers requests that were authenticated, authorized and audited, given what serves the groups of the service.
	Handler func(*Environment, http.Handler) http.Handler
}

// kept returns an authorizer that keeps decisions of core.
func (r *Requests) kept(core authorizer.Authorizer) authorizer.Authorizer {
	if r == nil {
		return core
	}
	return newDecisions(core, r.KeepDecisions, cache.NewLRUExpireCache(maxDecisions))
}

// applyTo configures a server.
func (r *Requests) applyTo(config *genericapiserver.Config, e *Environment) {
	if r == nil {
		return
	}
	if r.Info != nil {
		config.RequestInfoResolver = resolver{genericapiserver.NewRequestInfoResolver(config), r.Info}
	}
	if r.Authorizer != nil {
		config.Authorization.Authorizer = r.Authorizer(config.Authorization.Authorizer)
	}
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(served http.Handler, c *genericapiserver.Config) http.Handler {
		if r.Handler != nil {
			served = r.Handler(e, served)
		}
		chain := build(served, c)
		if r.Around != nil {
			chain = r.Around(chain)
		}
		return chain
	}
}

// resolver reads requests as Kubernetes does, and then asks the service.
type resolver struct {
	request.RequestInfoResolver
	info func(*http.Request, *request.RequestInfo) *request.RequestInfo
}

// NewRequestInfo implements request.RequestInfoResolver.
func (r resolver) NewRequestInfo(req *http.Request) (*request.RequestInfo, error) {
	info, err := r.RequestInfoResolver.NewRequestInfo(req)
	if err != nil {
		return nil, err
	}
	return r.info(req, info), nil
}
