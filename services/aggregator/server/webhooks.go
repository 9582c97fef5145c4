// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/url"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/admissionregistration/v1"

	"github.com/tripod-k8s/tripod/internal/servicetrust"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// Informers of different services do not hear of a new webhook in the same moment.
const (
	hearsay      = time.Second
	lookInterval = 20 * time.Millisecond
)

// webhookCalls allows core and extensions to call admission webhooks that are said to be at the kubernetes Service, where
// third parties serve them by way of the aggregator: just those paths.
type webhookCalls struct {
	mutating   listers.MutatingWebhookConfigurationLister
	validating listers.ValidatingWebhookConfigurationLister
}

func newWebhookCalls(factory informers.SharedInformerFactory) *webhookCalls {
	v1 := factory.Admissionregistration().V1()
	return &webhookCalls{
		mutating:   v1.MutatingWebhookConfigurations().Lister(),
		validating: v1.ValidatingWebhookConfigurations().Lister(),
	}
}

// Authorize implements authorizer.Authorizer. It never denies.
func (c *webhookCalls) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	isCall := servicetrust.ServiceOf(attributes.GetUser()) != "" && attributes.GetVerb() == "create" &&
		targetFrom(ctx).Owner == routing.ThirdParty
	if !isCall {
		return authorizer.DecisionNoOpinion, "", nil
	}
	err := wait.PollUntilContextTimeout(ctx, lookInterval, hearsay, true, func(context.Context) (bool, error) {
		return c.named(attributes.GetPath())
	})
	if err != nil {
		return authorizer.DecisionNoOpinion, "no webhook is configured to be at this path of the kubernetes Service", nil //nolint:nilerr // that is what it means
	}
	return authorizer.DecisionAllow, "", nil
}

// named reports whether a webhook is at that path of the kubernetes Service.
func (c *webhookCalls) named(path string) (bool, error) {
	mutating, err := c.mutating.List(labels.Everything())
	if err != nil {
		return false, err
	}
	for _, configuration := range mutating {
		for i := range configuration.Webhooks {
			if isAt(configuration.Webhooks[i].ClientConfig, path) {
				return true, nil
			}
		}
	}
	validating, err := c.validating.List(labels.Everything())
	if err != nil {
		return false, err
	}
	for _, configuration := range validating {
		for i := range configuration.Webhooks {
			if isAt(configuration.Webhooks[i].ClientConfig, path) {
				return true, nil
			}
		}
	}
	return false, nil
}

// isAt follows the rule by which kube-apiserver calls a webhook with its loopback client.
func isAt(config admissionregistrationv1.WebhookClientConfig, path string) bool {
	if service := config.Service; service != nil {
		return service.Namespace == "default" && service.Name == "kubernetes" &&
			(service.Port == nil || *service.Port == 443) && service.Path != nil && *service.Path == path
	}
	if config.URL == nil {
		return false
	}
	u, err := url.Parse(*config.URL)
	return err == nil && u.Hostname() == "kubernetes.default.svc" && (u.Port() == "" || u.Port() == "443") && u.Path == path
}
