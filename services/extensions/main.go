// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tripod-extensions serves CustomResourceDefinitions and custom resources.
package main

import (
	"context"
	"os"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"

	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/services/extensions/options"
	"github.com/tripod-k8s/tripod/services/extensions/server"
)

func main() {
	o := options.New()
	flags := o.Flags()
	cmd := service.NewCommand(service.Command{
		Name:       "tripod-extensions",
		Long:       "tripod-extensions serves CustomResourceDefinitions and custom resources, behind Tripod's aggregator.",
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
