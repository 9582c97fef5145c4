// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/tripod-k8s/tripod/base/admission/loopback"
	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/link"
	"github.com/tripod-k8s/tripod/services/core/options"
)

// applyLoopback lets the loopback clients of admission see what other services serve, through the aggregator: discovery, custom resources
// as parameters of policies, and webhooks at kubernetes.default.svc. Clients made earlier see core alone.
func applyLoopback(ctx context.Context, o *options.Completed, config *genericapiserver.Config) (*loopback.Served, error) {
	config.LoopbackClientConfig.UserAgent = loopback.UserAgent()
	others := link.NewAggregator(o.Neighbours.Aggregator, o.ServiceTrust)
	go others.Run(ctx)
	if o.BackendsFile != "" {
		go addresses.WatchBackends(ctx, o.BackendsFile, o.Backends, others.FollowAggregator)
	}
	client := others.Config(link.Fail)
	client.Wrap(tracing.WrapperFor(config.TracerProvider))
	aggregator, err := rest.TransportFor(client)
	if err != nil {
		return nil, fmt.Errorf("client of the aggregator: %w", err)
	}
	kinds := loopback.NewKinds(o.Kube.Admission.GenericAdmission)
	served := loopback.NewServed(legacyscheme.Scheme.IsVersionRegistered)
	config.LoopbackClientConfig, err = loopback.Split{
		Self:       config.LoopbackClientConfig,
		Serves:     served.Has,
		Aggregator: aggregator,
		// MutatingAdmissionPolicies need the schemas of the objects that they change.
		OwnOpenAPI: true,
		Kinds:      kinds,
	}.Config()
	if err != nil {
		return nil, err
	}
	go kinds.Run(ctx)
	return served, nil
}
