// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"net/http"
	"net/url"

	"go.opentelemetry.io/otel/trace"

	"k8s.io/apimachinery/pkg/runtime"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/endpoints/request"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	apiserverproxyutil "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/tracing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/tripod-k8s/tripod/services/aggregator/backend"
)

// ServiceResolver finds an address of a Service.
type ServiceResolver interface {
	ResolveEndpoint(namespace, name string, port int32) (*url.URL, error)
}

// ThirdPartyConfig is what all proxies to third-party API servers share.
type ThirdPartyConfig struct {
	Resolver ServiceResolver
	// ClientCert returns the certificate and key (PEM) that identify the aggregator.
	ClientCert func() (cert, key []byte)
	// Dial is nil for the network's own, or that of an egress selector.
	Dial            *transport.DialHolder
	RejectRedirects bool
	Tracer          trace.TracerProvider
	Serializer      runtime.NegotiatedSerializer
}

// ThirdParty proxies to the API server that an APIService names, the way kube-aggregator does: the
// user travels in X-Remote-* headers over a connection with the aggregator's front-proxy certificate.
type ThirdParty struct {
	config    ThirdPartyConfig
	service   apiregistrationv1.ServiceReference
	transport http.RoundTripper
	// broken says why no transport could be made.
	broken    error
	available bool
}

// NewThirdParty returns the proxy for an APIService with a spec.service. A trust bundle that
// cannot be used is reported to clients, not here.
func NewThirdParty(service *apiregistrationv1.APIService, config ThirdPartyConfig) *ThirdParty {
	p := &ThirdParty{
		config:    config,
		service:   *service.Spec.Service,
		available: helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available),
	}
	cert, key := config.ClientCert()
	p.transport, p.broken = transport.New(remote.BuildTransportConfig(config.Dial, cert, key, service))
	return p
}

// AssumeAvailable returns the proxy without regard to the APIService's Available condition:
// discovery of an API server is what makes it available.
func (p *ThirdParty) AssumeAvailable() *ThirdParty {
	assumed := *p
	assumed.available = true
	return &assumed
}

// ServeHTTP proxies the request on behalf of the user in its context.
func (p *ThirdParty) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := p.service.Namespace + "/" + p.service.Name
	if !p.available {
		Unavailable(p.config.Serializer, w, req, "the API server behind service %s is not available", name)
		return
	}
	if p.broken != nil {
		badGateway(p.config.Serializer, w, req, fmt.Sprintf("no connection can be made to service %s: %v", name, p.broken))
		return
	}
	user, ok := request.UserFrom(req.Context())
	if !ok {
		Unavailable(p.config.Serializer, w, req, "the request was not authenticated")
		return
	}
	location, err := p.config.Resolver.ResolveEndpoint(p.service.Namespace, p.service.Name, *p.service.Port)
	if err != nil {
		Unavailable(p.config.Serializer, w, req, "service %s has no address: %v", name, err)
		return
	}
	location = &url.URL{Scheme: "https", Host: location.Host, Path: req.URL.Path, RawQuery: req.URL.Query().Encode()}

	out, cancel := apiserverproxyutil.NewRequestForProxy(location, req)
	defer cancel()
	// An upgraded connection does not pass the transport's round tripper, so the headers are set here. For others
	// they are set again there: the proxy takes away what the client lists in its Connection header.
	setUser(out, user)

	upgrade := httpstream.IsUpgradeRequest(req)
	roundTripper := p.transport
	if !upgrade {
		roundTripper = transport.NewAuthProxyRoundTripper(user.GetName(), user.GetUID(), user.GetGroups(), user.GetExtra(),
			tracing.WrapperFor(p.config.Tracer)(roundTripper))
	}
	handler := utilproxy.NewUpgradeAwareHandler(location, roundTripper, true, upgrade, errorResponder{p})
	handler.RejectForwardingRedirects = p.config.RejectRedirects
	utilflowcontrol.RequestDelegated(req.Context())
	handler.ServeHTTP(w, out)
}

// errorResponder answers when the API server could not be reached.
type errorResponder struct{ p *ThirdParty }

func (r errorResponder) Error(w http.ResponseWriter, req *http.Request, err error) {
	name := r.p.service.Namespace + "/" + r.p.service.Name
	if !onlyReads(req.Method) && !backend.NeverLeft(err) {
		badGateway(r.p.config.Serializer, w, req, fmt.Sprintf("the connection to service %s broke before it answered: %v", name, err))
		return
	}
	Unavailable(r.p.config.Serializer, w, req, "error trying to reach service %s: %v", name, err)
}
