// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"           // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"  // metrics of clients
	_ "k8s.io/component-base/metrics/prometheus/version"   // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // metrics of work queues
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"

	"github.com/tripod-k8s/tripod/base/storage/etcdready"
	"github.com/tripod-k8s/tripod/base/tuning/gcpace"
	"github.com/tripod-k8s/tripod/base/tuning/procs"
)

// The feature gates of logging must be known before --feature-gates is defined.
func init() {
	utilruntime.Must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
}

// Command describes the command of one service.
type Command struct {
	// Name is the name of the binary.
	Name string
	// Long is the description in the help text.
	Long string
	// Flags are the service's flags by section. NewCommand adds the global ones.
	Flags *cliflag.NamedFlagSets
	// Logs is filled by Flags.
	Logs *logsapi.LoggingConfiguration
	// Components holds the feature gates and emulated versions that Flags fills.
	Components compatibility.ComponentGlobalsRegistry
	// Run runs the service until ctx ends.
	Run func(context.Context) error
}

// NewCommand returns the command of a service.
func NewCommand(s Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:          s.Name,
		Long:         s.Long,
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if err := s.Components.Set(); err != nil {
				return err
			}
			// Warnings in answers are for the clients that sent the requests, not for the log.
			rest.SetDefaultWarningHandler(rest.NoWarnings{})
			limitLibraryLog()
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			gates := s.Components.FeatureGateFor(compatibility.DefaultKubeComponent)
			if err := logsapi.ValidateAndApply(s.Logs, gates); err != nil {
				return err
			}
			cliflag.PrintFlags(cmd.Flags())
			if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
				mutable.AddMetrics()
			}
			s.Components.AddMetrics()
			gcpace.Start(cmd.Context())
			procs.Start(cmd.Context())
			if err := s.Run(cmd.Context()); err != nil && !errors.Is(err, etcdready.ErrStopped) {
				return err
			}
			return nil
		},
	}

	global := s.Flags.FlagSet("global")
	verflag.AddFlags(global)
	globalflag.AddGlobalFlags(global, s.Name, logs.SkipLoggingConfigurationFlags())
	for _, set := range s.Flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *s.Flags, columns)
	return cmd
}

// Execute runs the command and returns the exit code of the process. An error is one line on stderr.
func Execute(ctx context.Context, cmd *cobra.Command, stderr io.Writer) int {
	cmd.SetContext(ctx)
	if err := cli.RunNoErrOutput(cmd); err != nil {
		fmt.Fprintf(stderr, "Error: %v\n", err)
		return 1
	}
	return 0
}
