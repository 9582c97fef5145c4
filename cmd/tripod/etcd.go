// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/local/etcd/embedded"
)

func newEtcdCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Back up, restore, look after, resize and downgrade an etcd, and limit who reaches what in it",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEtcdSnapshotCommand(), newEtcdRestoreCommand(), newEtcdRestoreReleaseCommand(),
		newEtcdStatusCommand(), newEtcdDefragCommand(), newEtcdResizeCommand(),
		newEtcdAccessCommand(), newEtcdCheckGroupsCommand(),
		newEtcdDowngradeCommand(), newEtcdRunCommand())
	return cmd
}

// newEtcdRunCommand returns the command that `tripod up` runs for its etcd.
func newEtcdRunCommand() *cobra.Command {
	var o embedded.Options
	cmd := &cobra.Command{
		Use:    "run",
		Short:  "Run an etcd of one member",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return embedded.Run(ctx, o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.DataDir, "data-dir", "default.etcd", "directory of the data")
	fs.StringVar(&o.ClientURL, "client-url", "http://127.0.0.1:2379", "URL to serve clients at")
	fs.StringVar(&o.CertFile, "cert-file", "", "certificate of the server")
	fs.StringVar(&o.KeyFile, "key-file", "", "key of the server")
	fs.StringVar(&o.TrustedCAFile, "trusted-ca-file", "", "CA of the clients")
	fs.StringVar(&o.LogLevel, "log-level", "warn", "debug, info, warn, error")
	return cmd
}
