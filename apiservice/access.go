// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// applyAccess sets up who may do what behind Tripod. The aggregator says it with each request. What it does not say, such as whether a user
// may impersonate another one, the service asks core.
func applyAccess(o *completed, config *genericapiserver.Config, core *rest.Config) error {
	client, err := authorizationv1client.NewForConfig(core)
	if err != nil {
		return fmt.Errorf("client of core: %w", err)
	}
	// Kubernetes' own cache keeps nothing, so that a change of policy is in force at once. See Service.KeepDecisions.
	once, noTTL := wait.Backoff{Steps: 1}, time.Duration(0)
	asked, err := webhook.NewFromInterface(client, noTTL, noTTL, once, authorizer.DecisionNoOpinion, webhookmetrics.NoopAuthorizerMetrics{},
		nil)
	if err != nil {
		return err
	}
	config.Authorization.Authorizer = trust.Decided(newDecisions(asked, o.service.KeepDecisions, cache.NewLRUExpireCache(maxDecisions)))
	return o.ApplyTrust(config, false)
}
