// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/local/kubeapiserver"
)

// newKubeAPIServerCommand returns the drop-in for kube-apiserver, which parses its flags itself.
func newKubeAPIServerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   kubeapiserver.Name + " FLAGS",
		Short: "Run in place of kube-apiserver, with its flags",
		Long: `Run core, extensions and aggregator as child processes behind one port, with the flags of kube-apiserver
("tripod kube-apiserver --help" lists them). Through a symbolic link named kube-apiserver, tripod does the same.`,
		DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			os.Exit(kubeapiserver.Main(args))
		},
	}
}

// newCopyKubeAPIServerCommand returns the command for pods that start kube-apiserver from a volume. Images of Tripod have no cp.
func newCopyKubeAPIServerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "copy-" + kubeapiserver.Name + " DIR",
		Short: "Copy the drop-in for kube-apiserver to a directory",
		Long: `Copy the programs that take the place of kube-apiserver to a directory: DIR/kube-apiserver, and the programs that it starts. It is
the command of an init container, for pods that start kube-apiserver from a volume, such as those of vcluster. It replaces a
kube-apiserver that is there.`,
		Example: "  tripod copy-kube-apiserver /binaries",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return kubeapiserver.Copy(args[0]) },
	}
}
