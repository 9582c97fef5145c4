// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"

	"github.com/tripod-k8s/tripod/internal/policy"
	"github.com/tripod-k8s/tripod/services/aggregator/authentication"
	"github.com/tripod-k8s/tripod/services/aggregator/proxy"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
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
func buildChain(table *routing.Table, decides *policy.Policy, traces bool, core, extensions http.Handler) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(own http.Handler, config *genericapiserver.Config) http.Handler {
		c := new(*config)
		c.Authentication.Authenticator = authentication.Once(c.Authentication.Authenticator)
		full := fullChain(own, decides, c)
		short := shortChain(forward(core, extensions, c), traces, c)
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			target := table.Route(req.URL.Path)
			req = req.WithContext(context.WithValue(req.Context(), targetKey{}, target))
			switch target.Owner {
			case routing.Aggregator, routing.ThirdParty:
				full.ServeHTTP(w, req)
			default:
				short.ServeHTTP(w, req)
			}
		})
	}
}

// fullChain is kube-apiserver's chain, behind what that has no place for: while it cannot be known who sent a request, or
// what policy says, the answer is 503.
func fullChain(own http.Handler, decides *policy.Policy, c *genericapiserver.Config) http.Handler {
	handler := genericapiserver.DefaultBuildHandlerChain(withThirdParties(own), c)
	handler = decides.Gate(handler, c)
	handler = authentication.RejectDuringOutage(handler, c.Authentication.Authenticator, c.Serializer)
	// These are in the chain as well, where they find their work done.
	handler = genericapifilters.WithWarningRecorder(handler)
	handler = genericfilters.WithHSTS(handler, c.HSTSDirectives)
	handler = genericapifilters.WithRequestInfo(handler, c.RequestInfoResolver)
	handler = genericapifilters.WithRequestReceivedTimestamp(handler)
	handler = genericfilters.WithPanicRecovery(handler, c.RequestInfoResolver)
	return genericapifilters.WithAuditInit(handler)
}

// shortChain wraps what every request needs before it is forwarded. Innermost is first.
func shortChain(handler http.Handler, traces bool, c *genericapiserver.Config) http.Handler {
	failed := genericapifilters.WithFailedAuthenticationAudit(
		authentication.FailedHandler(c.Serializer, genericapifilters.Unauthorized(c.Serializer)),
		c.AuditBackend, c.AuditPolicyRuleEvaluator)
	failed = proxy.TellWarnings(genericapifilters.WithCacheControl(failed))
	if traces {
		handler = genericapifilters.WithTracing(handler, c.TracerProvider)
	}
	handler = genericapifilters.WithAuthentication(handler, c.Authentication.Authenticator, failed,
		c.Authentication.APIAudiences, c.Authentication.RequestHeaderConfig)
	handler = proxy.WithWarnings(authentication.WithOutcome(handler))
	handler = genericfilters.WithCORS(handler, c.CorsAllowedOriginList, nil, nil, nil, "true")
	handler = withShutdown(handler, c.LongRunningFunc, c.DrainedNotify())
	handler = genericfilters.WithWaitGroup(handler, c.LongRunningFunc, c.NonLongRunningRequestWaitGroup)
	if c.SecureServing != nil && !c.SecureServing.DisableHTTP2 && c.GoawayChance > 0 {
		handler = genericfilters.WithProbabilisticGoaway(handler, c.GoawayChance)
	}
	handler = genericfilters.WithHSTS(handler, c.HSTSDirectives)
	handler = genericfilters.WithHTTPLogging(handler)
	handler = genericapifilters.WithRequestInfo(handler, c.RequestInfoResolver)
	handler = genericapifilters.WithRequestReceivedTimestamp(handler)
	handler = genericfilters.WithPanicRecovery(handler, c.RequestInfoResolver)
	return genericapifilters.WithAuditInit(handler)
}

// forward sends a request to the backend that owns it.
func forward(core, extensions http.Handler, c *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch targetFrom(req.Context()).Owner {
		case routing.Core:
			core.ServeHTTP(w, req)
		case routing.Extensions:
			extensions.ServeHTTP(w, req)
		default:
			proxy.Unavailable(c.Serializer, w, req, "the server does not know all API services yet")
		}
	})
}

// withThirdParties proxies what third parties serve, past the aggregator's own handlers.
func withThirdParties(own http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if target := targetFrom(req.Context()); target.Owner == routing.ThirdParty {
			target.Handler.ServeHTTP(w, req)
			return
		}
		own.ServeHTTP(w, req)
	})
}

// withShutdown ends watches and tunnels when all other requests are done and the server stops:
// their clients would keep it waiting, as the backend has no reason to end them.
func withShutdown(handler http.Handler, longRunning request.LongRunningRequestCheck, drained <-chan struct{}) http.Handler {
	shutdown, cancel := context.WithCancel(context.Background())
	go func() {
		<-drained
		cancel()
	}()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !longRunning(req, info) {
			handler.ServeHTTP(w, req)
			return
		}
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		defer context.AfterFunc(shutdown, cancel)()
		handler.ServeHTTP(w, req.WithContext(ctx))
	})
}
