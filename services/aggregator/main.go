// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tripod-aggregator is the public endpoint of Tripod: it authenticates requests and sends each to the API
// server that an APIService names.
package main

import (
	"context"
	"os"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"

	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/services/aggregator/options"
	"github.com/tripod-k8s/tripod/services/aggregator/server"
)

func main() {
	o := options.New()
	flags := o.Flags()
	cmd := service.NewCommand(service.Command{
		Name:       "tripod-aggregator",
		Long:       "tripod-aggregator is the public endpoint of Tripod. It proxies by APIService to core, extensions and other API servers.",
		Flags:      flags,
		Logs:       o.Logs,
		Components: o.ServerRun.ComponentGlobalsRegistry,
		Run: func(ctx context.Context) error {
			if err := utilerrors.NewAggregate(o.Validate()); err != nil {
				return err
			}
			completed, err := o.Complete(ctx)
			if err != nil {
				return err
			}
			return server.Run(ctx, completed)
		},
	})
	os.Exit(service.Execute(genericapiserver.SetupSignalContext(), cmd, os.Stderr))
}
