// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
)

const retryAfterSeconds = 1

// Gate returns the gate before a chain that this policy authorizes.
func (p *Policy) Gate(chain http.Handler, config *server.Config) http.Handler {
	return Gate(chain, config, p.Synced)
}

// Gate goes around the handler chain built from config. Until the objects that authorization needs are synced, it answers 503 with a
// Retry-After, except to requests whose senders are not known, to which the chain says so, and to those that config's authorizer allows
// already: those of system:masters and of services, and probes.
func Gate(chain http.Handler, config *server.Config, synced func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if synced() || passes(req, config) {
			chain.ServeHTTP(w, req)
			return
		}
		status := apierrors.NewServiceUnavailable("not ready to authorize requests: " + errNotSynced.Error())
		status.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
		w.Header().Set("Cache-Control", "no-cache, private")
		responsewriters.ErrorNegotiated(status, config.Serializer, schema.GroupVersion{Version: "v1"}, w, req)
	})
}

// passes reports whether the chain does not need the policy for its answer. The chain will find out the same again.
func passes(req *http.Request, config *server.Config) bool {
	// An authenticator may remove what it read; the chain has to read it again.
	req = req.Clone(req.Context())
	sender, ok, err := config.Authentication.Authenticator.AuthenticateRequest(req)
	if err != nil || !ok {
		return true
	}
	// Of an impersonated user it would have to be known what that user may do, and whether the sender may impersonate.
	if impersonates(req) {
		return false
	}
	info, err := config.RequestInfoResolver.NewRequestInfo(req)
	if err != nil {
		return true
	}
	ctx := request.WithRequestInfo(request.WithUser(req.Context(), sender.User), info)
	attributes, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return true
	}
	decision, _, _ := config.Authorization.Authorizer.Authorize(ctx, attributes)
	return decision == authorizer.DecisionAllow
}

func impersonates(req *http.Request) bool {
	for name := range req.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}
