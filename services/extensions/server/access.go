// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"time"

	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/extensions/options"
)

// reviewTimeout is how long core may take to answer whether a request is allowed.
const reviewTimeout = 10 * time.Second

// healthPaths need no credentials, so that probes need none.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// applyAccess sets up who may do what: users come from the aggregator, and core decides about them.
func applyAccess(o *options.Completed, config *genericapiserver.Config, core *rest.Config) error {
	var conditions []apiserverapi.AnonymousAuthCondition
	for _, p := range healthPaths {
		conditions = append(conditions, apiserverapi.AnonymousAuthCondition{Path: p})
	}
	config.Authentication.Authenticator = anonymous.NewAuthenticator(conditions)

	health, err := path.NewAuthorizer(healthPaths)
	if err != nil {
		return err
	}
	reviews, err := newReviewAuthorizer(core)
	if err != nil {
		return fmt.Errorf("authorization by core: %w", err)
	}
	// system:masters includes the loopback clients of this server, which must work while core is away.
	masters := authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)
	config.Authorization.Authorizer = union.New(masters, health, reviews)
	return o.ServiceTrust.ApplyTo(config)
}

// newReviewAuthorizer returns an authorizer that asks core. It remembers nothing, so that a change of policy is in
// force at once, and fails when core cannot be asked: a request is then neither allowed nor denied.
func newReviewAuthorizer(core *rest.Config) (authorizer.Authorizer, error) {
	core = rest.CopyConfig(core)
	core.Timeout = reviewTimeout
	client, err := authorizationclient.NewForConfig(core)
	if err != nil {
		return nil, err
	}
	return authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client,
		WebhookRetryBackoff:       genericoptions.DefaultAuthWebhookRetryBackoff(),
	}.New()
}
