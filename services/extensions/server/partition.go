// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"

	"github.com/tripod-k8s/tripod/base/backend"
	"github.com/tripod-k8s/tripod/services/extensions/definitions"
	"github.com/tripod-k8s/tripod/services/extensions/options"
)

// applyPartition limits a server to the groups of its partition. Without partitions, the server has all groups.
func applyPartition(o *options.Completed, config *backend.Config) {
	partition, generic := o.OwnPartition, config.Generic
	switch {
	case len(partition.Table) == 0:
	case partition.IsDefault():
		generic.RESTOptionsGetter = definitions.Narrow(generic.RESTOptionsGetter, partition)
	default:
		generic.RESTOptionsGetter = definitions.Own(generic.RESTOptionsGetter, partition)
	}
	build := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return build(partition.RefuseOtherGroups(partition.RefuseOtherStatus(definitions.Mark(handler))), c)
	}
}

// newDefinitions returns the server of definitions and custom resources. Its informer has the definitions of the partition.
func (c *Config) newDefinitions(delegate genericapiserver.DelegationTarget) (*apiextensionsapiserver.CustomResourceDefinitions, error) {
	if len(c.options.OwnPartition.Table) == 0 {
		return c.apiextensions.Complete().New(delegate)
	}
	var writes http.RoundTripper
	if !c.options.OwnPartition.IsDefault() {
		config := c.backend.ClusterConfig()
		config.Wrap(tracing.WrapperFor(c.backend.Generic.TracerProvider))
		var err error
		if writes, err = rest.TransportFor(config); err != nil {
			return nil, fmt.Errorf("client of the aggregator: %w", err)
		}
	}
	loopback := c.backend.Generic.LoopbackClientConfig
	c.backend.Generic.LoopbackClientConfig = definitions.Client(loopback, writes)
	server, err := c.apiextensions.Complete().New(delegate)
	if err != nil {
		return nil, err
	}
	// Only the informer and the controllers of definitions are limited.
	c.backend.Generic.LoopbackClientConfig, server.GenericAPIServer.LoopbackClientConfig = loopback, loopback
	return server, nil
}
