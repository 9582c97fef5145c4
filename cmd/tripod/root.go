// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/local/up"
)

func newRootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tripod",
		Short: "Run the Kubernetes API server as three services",
		Long: `Tripod is the Kubernetes API server as three services: aggregator, core and extensions.

  tripod up                    start an instance with its own etcd on this machine
  tripod kubectl get pods -A   use it`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	// A library adds a --version without effect to every command. This flag replaces it.
	cmd.PersistentFlags().BoolFunc("version", "show the version and exit", func(string) error {
		if err := printVersion(cmd.OutOrStdout()); err != nil {
			return err
		}
		os.Exit(0)
		return nil
	})
	cmd.AddCommand(
		newUpCommand(),
		newStatusCommand(),
		newScaleCommand(),
		newCheckCommand(),
		newKubectlCommand(),
		newKubeAPIServerCommand(),
		newStaticPodsCommand(),
		newCertsCommand(),
		newJoinCommand(),
		newEtcdCommand(),
		newMigrateCommand(),
		newSearchCommand(),
		newNewCommand(),
		newVersionCommand(),
	)
	return cmd
}

// addDataDirFlag adds the flag that names the instance.
func addDataDirFlag(cmd *cobra.Command, dataDir *string) {
	const name = "data-dir"
	cmd.Flags().StringVar(dataDir, name, up.DefaultDataDir(), "directory of the instance; the default can be set with $"+up.DataDirVariable)
	if os.Getenv(up.DataDirVariable) == "" {
		cmd.Flags().Lookup(name).DefValue = up.DefaultDataDirHelp
	}
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if !cmd.Flags().Changed(name) {
			sayEarlierInstance(cmd.ErrOrStderr())
		}
	}
}

// sayEarlierInstance says how to go on using an instance in the working directory.
func sayEarlierInstance(w io.Writer) {
	if line := up.EarlierInstance(); line != "" {
		fmt.Fprintln(w, line)
	}
}
