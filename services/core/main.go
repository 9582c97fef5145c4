// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tripod-core serves the built-in API groups of Kubernetes. It is the authority on identity and policy for
// Tripod's other services.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // time zones of CronJobs, where the system has none

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"

	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/services/core/options"
	"github.com/tripod-k8s/tripod/services/core/server"
)

func main() {
	o := options.New()
	flags := o.Flags()
	cmd := service.NewCommand(service.Command{
		Name:       "tripod-core",
		Long:       "tripod-core serves the built-in API groups of Kubernetes, behind Tripod's aggregator.",
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
