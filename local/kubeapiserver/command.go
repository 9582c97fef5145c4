// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/local/supervisor"
)

// Name is the name under which Tripod is kube-apiserver.
const Name = "kube-apiserver"

const long = `The Kubernetes API server validates and configures data
for the api objects which include pods, services, replicationcontrollers, and
others. The API Server services REST operations and provides the frontend to the
cluster's shared state through which all other components interact.`

// Main is the main function of kube-apiserver. It takes the arguments after the name of the program. If they are good, another program
// takes the place of this one, and serves (see package supervisor). Otherwise Main returns the exit code, and an error is one line on
// stderr. The binaries of the services and of the supervisor are beside this executable.
func Main(args []string) int {
	ctx, signals := supervisor.NotifySignals()
	cmd := newCommand(args, func(ctx context.Context, known *catalog, s *plan) error { return run(ctx, signals, known, s) })
	cmd.SetContext(ctx)
	if err := cli.RunNoErrOutput(cmd); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		return 1
	}
	return 0
}

// newCommand returns the command kube-apiserver with args. It calls start if kube-apiserver would accept the flags.
func newCommand(args []string, start func(context.Context, *catalog, *plan) error) *cobra.Command {
	known := newCatalog()
	o := options.NewServerRunOptions()
	flags := o.Flags()
	var divided []string
	addPartitionFlag(&flags, &divided)
	var cmd *cobra.Command
	cmd = service.NewCommand(service.Command{
		Name:       Name,
		Long:       long,
		Flags:      &flags,
		Logs:       o.Logs,
		Components: o.GenericServerRunOptions.ComponentGlobalsRegistry,
		Run: func(ctx context.Context) error {
			given, err := parse(cmd.Flags(), args)
			if err != nil {
				return err
			}
			if err := refuse(given); err != nil {
				return err
			}
			groups, err := parsePartitions(divided)
			if err != nil {
				return err
			}
			completed, err := complete(ctx, o)
			if err != nil {
				return err
			}
			plan, err := newPlan(given, completed)
			if err != nil {
				return err
			}
			plan.groups = groups
			return start(ctx, known, plan)
		},
	})
	cmd.Args = refusePositional
	cmd.SetArgs(args)
	return cmd
}

// Validation refuses groups in --runtime-config that are not in the scheme. This process serves no group, so it does not link them,
// but it needs their names.
func init() { utilruntime.Must(clientgoscheme.AddToScheme(legacyscheme.Scheme)) }

// complete completes and validates the options as kube-apiserver does before it starts. So it makes a certificate in --cert-dir
// if none was given.
func complete(ctx context.Context, o *options.ServerRunOptions) (options.CompletedOptions, error) {
	// This only checks that an external signer of service account tokens is there. Core follows its keys.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	completed, err := o.Complete(ctx)
	if err != nil {
		return completed, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return completed, utilerrors.NewAggregate(errs)
	}
	return completed, nil
}

// refusePositional refuses arguments that are not flags, in kube-apiserver's words.
func refusePositional(cmd *cobra.Command, args []string) error {
	for _, arg := range args {
		if arg != "" {
			return fmt.Errorf("%q does not take any arguments, got %q", cmd.CommandPath(), args)
		}
	}
	return nil
}
