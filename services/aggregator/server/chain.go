// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"

	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/internal/policy"
	"github.com/tripod-k8s/tripod/internal/tuning/deepstack"
	"github.com/tripod-k8s/tripod/services/aggregator/authn"
	"github.com/tripod-k8s/tripod/services/aggregator/proxy"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// targetKey carries the routing decision through the chain, so that it is made once.
type targetKey struct{}

func targetFrom(ctx context.Context) routing.Target {
	target, _ := ctx.Value(targetKey{}).(routing.Target)
	return target
}

// buildChain returns the function that builds the server's handler chain. There are two:
//
//   - short, for what core and extensions serve: who sent it, and forward. They run kube-apiserver's whole chain, with
//     audit, impersonation, priority and fairness, authorization and admission, once.
//   - full, kube-apiserver's, for what the aggregator serves and what it proxies to third parties.
func buildChain(table *routing.Table, decides *policy.Policy, calls *webhookCalls, traces bool, stop *shutdown, core, extensions http.Handler) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(own http.Handler, config *genericapiserver.Config) http.Handler {
		c := new(*config)
		c.Authentication.Authenticator = authn.Once(c.Authentication.Authenticator)
		full := fullChain(withThirdParties(own, stop, c), decides, calls, c)
		short := shortChain(forward(core, extensions, c), traces, stop, c)
		return stop.moveConnections(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			deepstack.Grow() // over HTTP/2 each request has a goroutine of its own
			target := table.RouteURL(req.URL)
			req = req.WithContext(context.WithValue(req.Context(), targetKey{}, target))
			switch target.Owner {
			case routing.Aggregator, routing.ThirdParty:
				full.ServeHTTP(w, req)
			default:
				short.ServeHTTP(w, req)
			}
		}))
	}
}

// fullChain is kube-apiserver's chain, behind what that has no place for: while it cannot be known who sent a request, or
// what policy says, the answer is 503.
func fullChain(own http.Handler, decides *policy.Policy, calls *webhookCalls, c *genericapiserver.Config) http.Handler {
	handler := genericapiserver.DefaultBuildHandlerChain(own, c)
	handler = calls.gate(decides.Gate(handler, c), c)
	handler = authn.RejectDuringOutage(handler, c.Authentication.Authenticator, c.Serializer)
	// These are in the chain as well, where they find their work done.
	handler = genericapifilters.WithWarningRecorder(handler)
	handler = genericfilters.WithHSTS(handler, c.HSTSDirectives)
	handler = genericapifilters.WithRequestInfo(handler, c.RequestInfoResolver)
	handler = genericapifilters.WithRequestReceivedTimestamp(handler)
	handler = genericfilters.WithPanicRecovery(handler, c.RequestInfoResolver)
	return genericapifilters.WithAuditInit(handler)
}

// shortChain wraps what every request needs before it is forwarded. Innermost is first.
func shortChain(handler http.Handler, traces bool, stop *shutdown, c *genericapiserver.Config) http.Handler {
	failed := genericapifilters.WithFailedAuthenticationAudit(
		authn.FailedHandler(c.Serializer, genericapifilters.Unauthorized(c.Serializer)),
		c.AuditBackend, c.AuditPolicyRuleEvaluator)
	failed = proxy.TellWarnings(genericapifilters.WithCacheControl(failed))
	if traces {
		handler = genericapifilters.WithTracing(handler, c.TracerProvider)
	} else {
		handler = withoutTraceOfAnybody(handler)
	}
	handler = genericapifilters.WithAuthentication(handler, c.Authentication.Authenticator, failed,
		c.Authentication.APIAudiences, c.Authentication.RequestHeaderConfig)
	handler = proxy.WithWarnings(authn.WithOutcome(handler))
	handler = genericfilters.WithCORS(handler, c.CorsAllowedOriginList, nil, nil, nil, "true")
	handler = stop.endLongRunning(handler, c.LongRunningFunc)
	handler = genericfilters.WithWaitGroup(handler, c.LongRunningFunc, c.NonLongRunningRequestWaitGroup)
	if c.ShutdownWatchTerminationGracePeriod > 0 {
		handler = genericfilters.WithWatchTerminationDuringShutdown(handler, stop, c.WatchRequestWaitGroup)
	}
	if c.SecureServing != nil && !c.SecureServing.DisableHTTP2 && c.GoawayChance > 0 {
		handler = genericfilters.WithProbabilisticGoaway(handler, c.GoawayChance)
	}
	handler = genericfilters.WithHSTS(handler, c.HSTSDirectives)
	if c.ShutdownSendRetryAfter {
		handler = genericfilters.WithRetryAfter(handler, stop.ShuttingDown())
	}
	handler = genericfilters.WithHTTPLogging(handler)
	handler = genericapifilters.WithRequestInfo(handler, c.RequestInfoResolver)
	handler = genericapifilters.WithRequestReceivedTimestamp(handler)
	handler = genericfilters.WithPanicRecovery(handler, c.RequestInfoResolver)
	return genericapifilters.WithAuditInit(handler)
}

// withoutTraceOfAnybody leaves it to the backends which requests to trace, but for those clients whose decision kube-apiserver
// respects, too. Backends take it that the aggregator has seen to that.
func withoutTraceOfAnybody(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, traced := req.Header["Traceparent"]; traced && !tracesDecided(req.Context()) {
			req.Header.Del("Traceparent")
			req.Header.Del("Tracestate")
		}
		handler.ServeHTTP(w, req)
	})
}

// tracesDecided reports whether the sender of a request decides whether it is traced.
func tracesDecided(ctx context.Context) bool {
	sender, ok := request.UserFrom(ctx)
	return ok && (trust.ServiceOf(sender) != "" ||
		slices.Contains(sender.GetGroups(), user.SystemPrivilegedGroup) || slices.Contains(sender.GetGroups(), user.MonitoringGroup))
}

// forward sends a request to the backend that owns it.
func forward(core, extensions http.Handler, c *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		target := targetFrom(req.Context())
		if target.Replica != "" && isSomebody(req.Context()) {
			req = req.WithContext(upstream.WithReplica(req.Context(), target.Replica))
		}
		switch target.Owner {
		case routing.Core:
			core.ServeHTTP(w, req)
		case routing.Extensions:
			extensions.ServeHTTP(w, req)
		default:
			proxy.Unavailable(c.Serializer, w, req, "the server does not know all API services yet")
		}
	})
}

// isSomebody reports whether it is known who sent a request. To anybody else no replica is shown to be there or not.
func isSomebody(ctx context.Context) bool {
	sender, ok := request.UserFrom(ctx)
	return ok && !slices.Contains(sender.GetGroups(), user.AllUnauthenticated)
}

// withThirdParties proxies what third parties serve, past the aggregator's own handlers.
func withThirdParties(own http.Handler, stop *shutdown, c *genericapiserver.Config) http.Handler {
	proxied := stop.endLongRunning(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		targetFrom(req.Context()).Handler.ServeHTTP(w, asKubeAPIServer(req))
	}), c.LongRunningFunc)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if targetFrom(req.Context()).Owner == routing.ThirdParty {
			proxied.ServeHTTP(w, req)
			return
		}
		own.ServeHTTP(w, req)
	})
}
