// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/apiserver"
	openapicontroller "k8s.io/kube-aggregator/pkg/controllers/openapi"
	openapiv3controller "k8s.io/kube-aggregator/pkg/controllers/openapiv3"

	"github.com/tripod-k8s/tripod/services/aggregator/peers/aggregated"
	"github.com/tripod-k8s/tripod/services/aggregator/proxy"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// apiServiceHandlers makes APIServices effective: kube-aggregator's registration controller calls
// it, from one goroutine, for every APIService that is added, changed or removed.
type apiServiceHandlers struct {
	table      *routing.Table
	watches    *routedWatches
	backends   backends
	aggregated proxy.AggregatedConfig
	directory  *aggregated.Directory
	discovery  apiserver.DiscoveryAggregationController
	openAPI    *openapicontroller.AggregationController
	openAPIV3  *openapiv3controller.AggregationController

	// proxied are the APIServices of aggregated API servers that the OpenAPI controllers have.
	proxied map[string]*currentProxy
}

// currentProxy gives documents of an APIService as it says now: the OpenAPI controllers keep the
// handler that they are given first.
type currentProxy struct {
	name string
	atomic.Pointer[proxy.Aggregated]
}

func (c *currentProxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	documentsOf(c.Load(), c.name).ServeHTTP(w, req)
}

var _ apiserver.APIHandlerManager = &apiServiceHandlers{}

// AddAPIService routes the group-version of an APIService as the APIService says now.
func (h *apiServiceHandlers) AddAPIService(service *apiregistrationv1.APIService) error {
	gv := schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}
	defer h.watches.reconsider(gv)
	if _, ours := h.table.Backends().Of(service); ours {
		h.forget(service.Name)
		h.table.SetAPIService(service, nil)
		h.backends.reconsider(gv)
		h.expect(gv)
		return nil
	}
	handler := proxy.NewAggregated(service, h.directory.Set(service), h.aggregated)
	h.table.SetAPIService(service, handler)
	h.backends.reconsider(gv)
	h.discovery.AddAPIService(service, documentsOf(handler.AssumeAvailable(), service.Name))
	if current, known := h.proxied[service.Name]; known {
		current.Store(handler)
		h.openAPI.UpdateAPIService(current, service)
		h.openAPIV3.UpdateAPIService(current, service)
		return nil
	}
	current := &currentProxy{name: service.Name}
	current.Store(handler)
	h.proxied[service.Name] = current
	h.openAPI.AddAPIService(current, service)
	h.openAPIV3.AddAPIService(current, service)
	return nil
}

// RemoveAPIService routes the group-version to another service that has it.
func (h *apiServiceHandlers) RemoveAPIService(name string) {
	gv := helper.APIServiceNameToGroupVersion(name)
	defer h.watches.reconsider(gv)
	h.table.RemoveAPIService(gv)
	h.backends.reconsider(gv)
	h.forget(name)
}

func (h *apiServiceHandlers) forget(name string) {
	if h.proxied[name] == nil {
		return
	}
	delete(h.proxied, name)
	h.directory.Remove(name)
	h.discovery.RemoveAPIService(name)
	h.openAPI.RemoveAPIService(name)
	h.openAPIV3.RemoveAPIService(name)
}

// expect keeps a group-version in discovery, as Stale, while its backend has not reported yet.
func (h *apiServiceHandlers) expect(gv schema.GroupVersion) {
	if b := h.backends.named(h.table.GroupVersion(gv).Owner); b != nil {
		b.discovery.Expect(gv)
	}
}
