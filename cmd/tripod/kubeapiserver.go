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
