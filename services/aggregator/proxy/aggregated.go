// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"

	"go.opentelemetry.io/otel/trace"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	apiserverproxyutil "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/tracing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/status"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// AggregatedConfig is what all proxies to aggregated API servers share.
type AggregatedConfig struct {
	RejectRedirects bool
	Tracer          trace.TracerProvider
	Serializer      runtime.NegotiatedSerializer
	// Memory is the budget of all requests.
	Memory *requestmemory.Budget
}

// Upstream is the way to an aggregated API server, which shows it the aggregator's front-proxy certificate. A request for it
// needs only a path. Its errors are those of upstream.Backend.
type Upstream interface {
	http.RoundTripper
	// Ready reports whether it was found to answer.
	Ready() bool
}

// Aggregated proxies to the API server that an APIService names, the way kube-aggregator does: the
// user travels in X-Remote-* headers.
type Aggregated struct {
	config    AggregatedConfig
	service   apiregistrationv1.ServiceReference
	upstream  Upstream
	available bool
}

// NewAggregated returns the proxy for an APIService with a spec.service.
func NewAggregated(service *apiregistrationv1.APIService, upstream Upstream, config AggregatedConfig) *Aggregated {
	return &Aggregated{
		config:    config,
		service:   *service.Spec.Service,
		upstream:  upstream,
		available: helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available),
	}
}

// AssumeAvailable returns the proxy without regard to the APIService's Available condition:
// discovery of an API server is what makes it available.
func (p *Aggregated) AssumeAvailable() *Aggregated {
	assumed := *p
	assumed.available = true
	return &assumed
}

func (p *Aggregated) name() string { return p.service.Namespace + "/" + p.service.Name }

// ServeHTTP proxies the request on behalf of the user in its context.
func (p *Aggregated) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	// The condition is what some aggregator found a moment ago.
	if !p.available && !p.upstream.Ready() {
		status.Unavailable(p.config.Serializer, w, req, "the API server behind service %s is not available", p.name())
		return
	}
	sender, ok := request.UserFrom(req.Context())
	if !ok {
		status.Unavailable(p.config.Serializer, w, req, "the request was not authenticated")
		return
	}
	reservation := p.config.Memory.Begin(req, sender)
	if reservation == nil {
		status.TooMany(p.config.Serializer, w, req, status.TooMuchMemory)
		return
	}
	defer reservation.End()
	class := routing.Of(req)
	location := &url.URL{Scheme: "https", Host: p.service.Name + "." + p.service.Namespace + ".svc", Path: req.URL.Path,
		RawQuery: req.URL.Query().Encode()}
	out, cancel := apiserverproxyutil.NewRequestForProxy(location, req)
	defer cancel()
	utilflowcontrol.RequestDelegated(req.Context())
	if class.LongRunning {
		w = reservation.Writer(w)
	}
	counting := counted{p.upstream, reservation}
	if class.Upgrade {
		p.upgrade(w, out, sender, counting)
		return
	}
	setUser(out, sender)
	// They are set once more: the proxy takes away what the client lists in its Connection header.
	sent := &sending{to: p, transport: counting}
	roundTripper := transport.NewAuthProxyRoundTripper(sender.GetName(), sender.GetUID(), sender.GetGroups(), sender.GetExtra(),
		tracing.WrapperFor(p.config.Tracer)(sent))
	handler := utilproxy.NewUpgradeAwareHandler(location, roundTripper, true, false, sent)
	handler.RejectForwardingRedirects = p.config.RejectRedirects
	handler.ServeHTTP(w, out)
}

// upgrade tunnels. utilproxy.UpgradeAwareHandler would do so to one address, so this sends what that does, by a transport.
func (p *Aggregated) upgrade(w http.ResponseWriter, req *http.Request, sender user.Info, by http.RoundTripper) {
	serveUpgrade(httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			keepHeaders(pr.Out.Header, pr.In.Header)
			setUser(pr.Out, sender)
			utilnet.AppendForwardedForHeader(pr.Out)
		},
		Transport:      by,
		ModifyResponse: refuseRedirects,
		ErrorHandler:   (&sending{to: p}).Error,
		ErrorLog:       log.New(klogWriter{}, "", 0),
	}, w, req)
}

// refuseRedirects makes an error of any answer to an upgrade but 101 and errors: a client that followed a redirect would take its
// credentials along (CVE-2022-3172). utilproxy.UpgradeAwareHandler has the same rule.
func refuseRedirects(resp *http.Response) error {
	if resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode < http.StatusBadRequest {
		return fmt.Errorf("the API server answered a request to upgrade with %s", resp.Status)
	}
	return nil
}

// sending is one request on its way to the API server.
type sending struct {
	to        *Aggregated
	transport http.RoundTripper
	// failed is why there is no answer. utilproxy passes on only what it says.
	failed error
}

// RoundTrip sends the request. If the server of a watch goes away, the watch ends without an error.
func (s *sending) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := roundTripCompressed(s.transport, req)
	if err != nil {
		s.failed = err
		return nil, err
	}
	if resp.StatusCode == http.StatusOK && routing.Of(req).Kind == routing.Watch {
		resp.Body = watchBody{resp.Body}
	}
	return resp, nil
}

// Error answers a request that got no response.
func (s *sending) Error(w http.ResponseWriter, req *http.Request, err error) {
	if s.failed != nil {
		err = s.failed
	}
	if errors.Is(err, errTooMuch) {
		status.TooMany(s.to.config.Serializer, w, req, status.TooMuchMemory)
		return
	}
	if upstream.IsTooLarge(err) {
		status.HeadersTooLarge(s.to.config.Serializer, w, req)
		return
	}
	var unreachable *upstream.UnreachableError
	if !routing.Of(req).Repeatable && !errors.As(err, &unreachable) {
		status.BadGateway(s.to.config.Serializer, w, req,
			fmt.Sprintf("the connection to service %s broke before it answered: %v", s.to.name(), err))
		return
	}
	status.Unavailable(s.to.config.Serializer, w, req, "error trying to reach service %s: %v", s.to.name(), err)
}
