// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/egressselector"

	"github.com/tripod-k8s/tripod/services/aggregator/peers/aggregated"
	"github.com/tripod-k8s/tripod/services/aggregator/proxy"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// aggregatedServers is how aggregated API servers are found, by the Services and EndpointSlices of core, and what the aggregator shows
// them.
type aggregatedServers struct {
	directory *aggregated.Directory
	proxy     proxy.AggregatedConfig
	// clientCert identifies the aggregator. It is nil when none is configured.
	clientCert *dynamiccertificates.DynamicCertKeyPairContent
}

func (c *Config) newAggregatedServers() (*aggregatedServers, error) {
	o, generic := c.options, c.generic
	t := &aggregatedServers{proxy: proxy.AggregatedConfig{
		Memory:          c.memory,
		RejectRedirects: o.RejectForwardingRedirects,
		Tracer:          generic.TracerProvider,
		Serializer:      generic.Serializer,
	}}
	config := aggregated.Config{
		Services:       generic.SharedInformerFactory.Core().V1().Services(),
		EndpointSlices: generic.SharedInformerFactory.Discovery().V1().EndpointSlices(),
		ByEndpoint:     o.EnableAggregatorRouting,
		ClientCert:     func() (cert, key []byte) { return nil, nil },
	}
	if generic.EgressSelector != nil {
		dial, err := generic.EgressSelector.Lookup(egressselector.Cluster.AsNetworkContext())
		if err != nil {
			return nil, err
		}
		if dial != nil {
			config.Dial = connections.Dial(dial)
		}
	}
	if o.ProxyClientCertFile != "" {
		var err error
		t.clientCert, err = dynamiccertificates.NewDynamicServingContentFromFiles("aggregator-proxy-cert", o.ProxyClientCertFile,
			o.ProxyClientKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--proxy-client-cert-file: %w", err)
		}
		config.ClientCert = t.clientCert.CurrentCertKeyContent
	}
	var err error
	t.directory, err = aggregated.New(config)
	return t, err
}
