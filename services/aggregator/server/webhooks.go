// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	admissionregistration "k8s.io/client-go/informers/admissionregistration/v1"

	"github.com/tripod-k8s/tripod/base/admission/loopback"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/status"
)

// Informers of different services do not receive a new webhook in the same moment.
const (
	informerLag  = time.Second
	pollInterval = 20 * time.Millisecond
)

// webhookCalls allows the other services to call webhooks that are configured at the kubernetes Service, where aggregated API servers
// serve them by way of the aggregator: just those paths.
type webhookCalls struct {
	mutating   admissionregistration.MutatingWebhookConfigurationInformer
	validating admissionregistration.ValidatingWebhookConfigurationInformer
	manifests  *manifestWebhooks
	// conversion knows the conversion webhooks of CustomResourceDefinitions, which extensions calls.
	conversion func(service, path string) (there, reported bool)
}

func newWebhookCalls(
	factory informers.SharedInformerFactory, manifests *manifestWebhooks, conversion func(service, path string) (there, reported bool),
) *webhookCalls {
	v1 := factory.Admissionregistration().V1()
	c := &webhookCalls{
		mutating: v1.MutatingWebhookConfigurations(), validating: v1.ValidatingWebhookConfigurations(), manifests: manifests,
		conversion: conversion,
	}
	c.mutating.Informer() // so that they are followed
	c.validating.Informer()
	return c
}

// received reports whether all webhooks that a service may call were received once.
func (c *webhookCalls) received(service string) bool {
	reported := true
	if servesCustomResources(service) {
		_, reported = c.conversion(service, "")
	}
	return c.mutating.Informer().HasSynced() && c.validating.Informer().HasSynced() && reported
}

// gate goes around the handler chain built from config. Until webhooks were received it answers 503 to services that call one: Authorize
// could not but forbid that.
func (c *webhookCalls) gate(chain http.Handler, config *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost && routing.Of(req).Owner == routing.Aggregated {
			// An authenticator may remove what it read; the chain has to read it again.
			sender, ok, err := config.Authentication.Authenticator.AuthenticateRequest(req.Clone(req.Context()))
			if err == nil && ok {
				if service := trust.ServiceOf(sender.User); service != "" && !c.received(service) {
					status.Unavailable(config.Serializer, w, req, "the webhooks at the kubernetes Service are not all known yet")
					return
				}
			}
		}
		chain.ServeHTTP(w, req)
	})
}

// Authorize implements trust.Unconditional. It never denies.
func (c *webhookCalls) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	service := trust.ServiceOf(attributes.GetUser())
	if service == "" || attributes.GetVerb() != "create" || !ofAggregated(ctx) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, informerLag, true, func(context.Context) (bool, error) {
		return c.named(service, attributes.GetPath())
	})
	if err != nil {
		const reason = "no webhook is configured to be at this path of the kubernetes Service"
		return authorizer.DecisionNoOpinion, reason, nil //nolint:nilerr // that is what it means
	}
	return authorizer.DecisionAllow, "", nil
}

// ofAggregated reports whether the request of a context is for an aggregated API server.
func ofAggregated(ctx context.Context) bool {
	class := routing.From(ctx)
	return class != nil && class.Owner == routing.Aggregated
}

// named reports whether a webhook that a service may call is at that path of the kubernetes Service.
func (c *webhookCalls) named(service, path string) (bool, error) {
	if path == "" {
		return false, nil
	}
	if servesCustomResources(service) {
		if there, _ := c.conversion(service, path); there {
			return true, nil
		}
	}
	mutating, err := c.mutating.Lister().List(labels.Everything())
	if err != nil {
		return false, err
	}
	validating, err := c.validating.Lister().List(labels.Everything())
	if err != nil {
		return false, err
	}
	ofFiles, alsoOfFiles := c.manifests.configurations()
	return mutates(mutating, path) || mutates(ofFiles, path) || validates(validating, path) || validates(alsoOfFiles, path), nil
}

func mutates(configurations []*admissionregistrationv1.MutatingWebhookConfiguration, path string) bool {
	for _, configuration := range configurations {
		for i := range configuration.Webhooks {
			if isAt(configuration.Webhooks[i].ClientConfig, path) {
				return true
			}
		}
	}
	return false
}

func validates(configurations []*admissionregistrationv1.ValidatingWebhookConfiguration, path string) bool {
	for _, configuration := range configurations {
		for i := range configuration.Webhooks {
			if isAt(configuration.Webhooks[i].ClientConfig, path) {
				return true
			}
		}
	}
	return false
}

func isAt(config admissionregistrationv1.WebhookClientConfig, path string) bool {
	if service := config.Service; service != nil {
		return loopback.WebhookPath(service.Namespace, service.Name, service.Port, service.Path) == path
	}
	return config.URL != nil && loopback.WebhookPathOfURL(*config.URL) == path
}

// servesCustomResources reports whether the user of a service is a partition of extensions, such as the default one.
func servesCustomResources(user string) bool {
	service, ok := strings.CutPrefix(user, trust.UserOf(""))
	return ok && routing.Owner(service).ServesCustomResources()
}

// conversion reports whether a replica of a partition of extensions will call a conversion webhook at a path of the kubernetes Service.
// reported is false if no replica has reported yet what it will call.
func (all backends) conversion(user, path string) (there, reported bool) {
	if b := all.named(routing.Owner(strings.TrimPrefix(user, trust.UserOf("")))); b != nil {
		return b.feed.CallsWebhookAt(path)
	}
	return false, false
}
