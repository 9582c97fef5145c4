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

	"github.com/tripod-k8s/tripod/internal/admission/loopback"
	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/link"
	"github.com/tripod-k8s/tripod/services/core/options"
)

// applyLoopback makes the loopback clients of admission see what others serve, by way of the aggregator: discovery, custom
// resources as parameters of policies, and webhooks at kubernetes.default.svc. Clients that were made before see core alone.
func applyLoopback(ctx context.Context, o *options.Completed, config *genericapiserver.Config) (*loopback.Served, error) {
	config.LoopbackClientConfig.UserAgent = loopback.UserAgent()
	link := link.NewAggregator(o.Neighbours.Aggregator, o.ServiceTrust)
	if o.BackendsFile != "" {
		go addresses.WatchBackends(ctx, o.BackendsFile, o.Backends, link.FollowAggregator)
	}
	client := link.Config()
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
		// MutatingAdmissionPolicies need the schemas of what they change.
		OwnOpenAPI: true,
		Kinds:      kinds,
	}.Config()
	if err != nil {
		return nil, err
	}
	go kinds.Run(ctx)
	return served, nil
}
