// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/tuning/deepstack"
	"github.com/tripod-k8s/tripod/services/aggregator/authn"
	"github.com/tripod-k8s/tripod/services/aggregator/clients"
	"github.com/tripod-k8s/tripod/services/aggregator/proxy"
	"github.com/tripod-k8s/tripod/services/aggregator/requestmemory"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/status"
	"github.com/tripod-k8s/tripod/services/shared/policy"
)

// chains are the server's handler chains. Each request is classified, and goes through one of two:
//
//   - short, for what backends serve: authenticate, and forward. The backends run kube-apiserver's whole chain, with
//     audit, impersonation, priority and fairness, authorization and admission, once.
//   - full, kube-apiserver's, for what the aggregator serves and what it proxies to aggregated API servers.
type chains struct {
	table    *routing.Table
	policy   *policy.Policy
	webhooks *webhookCalls
	stop     *shutdown
	// answerTimeout is how long a request may take that its client cannot make last.
	answerTimeout time.Duration
	// traces is set if requests are traced.
	traces bool
	// forwarders send requests on, each to the backend that owns them.
	forwarders map[routing.Owner]http.Handler
	// additional are the backends to which the aggregator sends the decision of the policy.
	additional map[routing.Owner]bool
	// clients are the connections, and memory is what requests share.
	clients *clients.Connections
	memory  *requestmemory.Budget
}

// build is the BuildHandlerChainFunc of a server that serves own.
func (h *chains) build(own http.Handler, config *genericapiserver.Config) http.Handler {
	c := new(*config)
	c.RequestInfoResolver, c.LongRunningFunc = routing.Resolver{}, routing.IsLongRunning
	c.Authentication.Authenticator = authn.Once(c.Authentication.Authenticator)
	handler := h.table.WithRequest(endUnread(h.answerTimeout, h.stop.moveConnections(choose(h.full(own, c), h.short(c)))))
	handler = genericapifilters.WithRequestReceivedTimestamp(handler)
	handler = genericfilters.WithPanicRecovery(handler, routing.LabelResolver{Table: h.table})
	handler = genericapifilters.WithAuditInit(handler)
	return h.clients.Arrive(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		deepstack.Grow() // over HTTP/2 each request has a goroutine of its own
		handler.ServeHTTP(w, req)
	}))
}

// answerSlack is how much longer than the backend's handlers, which also end by --request-timeout, an answer may take.
const answerSlack = 10 * time.Second

// endUnread breaks off answers that their clients do not take. kube-apiserver does so when --request-timeout has passed.
func endUnread(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !routing.Of(req).LongRunning {
			// net/http takes it away after the request, and when a connection becomes a tunnel. It has no error where there is a client.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout))
		}
		next.ServeHTTP(w, req)
	})
}

// choose hands each request to its chain.
func choose(full, short http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch routing.Of(req).Owner {
		case routing.Aggregator, routing.Aggregated:
			full.ServeHTTP(w, req)
		default:
			short.ServeHTTP(w, req)
		}
	})
}

// full is kube-apiserver's chain, wrapped by filters that kube-apiserver's chain does not have: while the sender or the policy
// cannot be known, the answer is 503.
func (h *chains) full(own http.Handler, c *genericapiserver.Config) http.Handler {
	fair := new(*c)
	fair.FlowControl = trust.Fairness(c)
	handler := genericapiserver.DefaultBuildHandlerChain(h.withAggregated(own), fair)
	// They count the authenticated user, not the user whom the request impersonates in the chain.
	handler = h.clients.Use(h.reserve(handler, c), tooMany(c))
	handler = h.webhooks.gate(h.policy.Gate(handler, c), c)
	handler = authn.RejectDuringOutage(handler, c.Authentication.Authenticator, c.Serializer)
	// These are in the chain as well, where they find their work done.
	handler = genericapifilters.WithWarningRecorder(handler)
	return genericfilters.WithHSTS(handler, c.HSTSDirectives)
}

// short is the chain of requests that are forwarded. Its code begins with the innermost handler.
func (h *chains) short(c *genericapiserver.Config) http.Handler {
	failed := genericapifilters.WithFailedAuthenticationAudit(
		authn.FailedHandler(c.Serializer, genericapifilters.Unauthorized(c.Serializer)),
		c.AuditBackend, c.AuditPolicyRuleEvaluator)
	failed = proxy.SendWarnings(genericapifilters.WithCacheControl(failed))
	to := maps.Clone(h.forwarders)
	for owner, forwarder := range to {
		if h.additional[owner] {
			to[owner] = h.policy.Gate(forwarder, c)
		}
	}
	handler := h.clients.Use(forward(to, c), tooMany(c))
	if h.traces {
		handler = genericapifilters.WithTracing(handler, c.TracerProvider)
	} else {
		handler = withoutClientTraces(handler)
	}
	handler = genericapifilters.WithAuthentication(handler, c.Authentication.Authenticator, failed,
		c.Authentication.APIAudiences, c.Authentication.RequestHeaderConfig)
	handler = proxy.WithWarnings(authn.WithOutcome(handler))
	handler = genericfilters.WithCORS(handler, c.CorsAllowedOriginList, nil, nil, nil, "true")
	handler = h.stop.endLongRunning(handler)
	handler = genericfilters.WithWaitGroup(handler, c.LongRunningFunc, c.NonLongRunningRequestWaitGroup)
	if c.ShutdownWatchTerminationGracePeriod > 0 {
		handler = genericfilters.WithWatchTerminationDuringShutdown(handler, h.stop, c.WatchRequestWaitGroup)
	}
	if c.SecureServing != nil && !c.SecureServing.DisableHTTP2 && c.GoawayChance > 0 {
		handler = genericfilters.WithProbabilisticGoaway(handler, c.GoawayChance)
	}
	handler = genericfilters.WithHSTS(handler, c.HSTSDirectives)
	if c.ShutdownSendRetryAfter {
		handler = genericfilters.WithRetryAfter(handler, h.stop.ShuttingDown())
	}
	return genericfilters.WithHTTPLogging(handler)
}

// withoutClientTraces removes the trace headers of clients that may not decide whether their requests are traced. The backends rely on it,
// and decide themselves.
func withoutClientTraces(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, traced := req.Header["Traceparent"]; traced && !mayDecideTraces(req.Context()) {
			req.Header.Del("Traceparent")
			req.Header.Del("Tracestate")
		}
		handler.ServeHTTP(w, req)
	})
}

// mayDecideTraces reports whether the sender of a request decides whether it is traced. The rule is kube-apiserver's.
func mayDecideTraces(ctx context.Context) bool {
	sender, ok := request.UserFrom(ctx)
	return ok && (trust.ServiceOf(sender) != "" ||
		slices.Contains(sender.GetGroups(), user.SystemPrivilegedGroup) || slices.Contains(sender.GetGroups(), user.MonitoringGroup))
}

// forward sends a request to the backend that owns it.
func forward(to map[routing.Owner]http.Handler, c *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		forwarder, ok := to[routing.Of(req).Owner]
		if !ok {
			status.Unavailable(c.Serializer, w, req, "the server does not know all API services yet")
			return
		}
		forwarder.ServeHTTP(w, req)
	})
}

// tooMany answers 429 to a user who has too much.
func tooMany(c *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status.TooMany(c.Serializer, w, req, status.TooMuchMemory)
	})
}

// reserve counts requests of the full chain as memory of their senders. Forwarders do so for all others.
func (h *chains) reserve(next http.Handler, c *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if sender, ok := request.UserFrom(req.Context()); ok {
			reservation := h.memory.Begin(req, sender)
			if reservation == nil {
				status.TooMany(c.Serializer, w, req, status.TooMuchMemory)
				return
			}
			defer reservation.End()
			req = req.WithContext(reservation.In(req.Context()))
		}
		next.ServeHTTP(w, req)
	})
}

// withAggregated proxies requests for aggregated API servers, and leaves all others to the aggregator's own handlers.
func (h *chains) withAggregated(own http.Handler) http.Handler {
	proxied := h.stop.endLongRunning(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		routing.Of(req).Handler.ServeHTTP(w, h.webhooks.asKubeAPIServer(req))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if routing.Of(req).Owner == routing.Aggregated {
			proxied.ServeHTTP(w, req)
			return
		}
		own.ServeHTTP(w, req)
	})
}
