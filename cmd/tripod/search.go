// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/admin/search"
)

func newSearchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "search",
		Short: "Use search, which finds objects of many clusters",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSearchKubeconfigCommand(), newSearchClustersCommand(), newSearchGetCommand(), newSearchDiffCommand())
	return cmd
}

func newSearchKubeconfigCommand() *cobra.Command {
	paths := clientcmd.NewDefaultPathOptions()
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Add the clusters of search to a kubeconfig, for kubectl --cluster and --context",
		Long: `Add the clusters of search to a kubeconfig: ` + search.AllClusters + ` for all of them, and one for each, as clusters and as contexts. A name that the kubeconfig
has for another server gets the prefix search-.

  tripod search kubeconfig
  tripod kubectl --cluster ` + search.AllClusters + ` get pods -A
  tripod kubectl --context hub get pods -A

The kubeconfig is that of kubectl. The current context says which instance to ask, and as whom: the contexts have its user.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if paths.LoadingRules.ExplicitPath == "" {
				if err := preferInstance(nil); err != nil {
					return err
				}
				paths = clientcmd.NewDefaultPathOptions()
			}
			return search.WriteEntries(cmd.Context(), paths, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&paths.LoadingRules.ExplicitPath, paths.ExplicitFileFlag, "", "file to change")
	return cmd
}

// startingConfig returns the kubeconfig that the commands go by, as kubectl would.
func startingConfig() (*clientcmdapi.Config, error) {
	if err := preferInstance(nil); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultPathOptions().GetStartingConfig()
}

// toHub returns how to reach the cluster that search is part of, by a context or, if that is empty, by the current one.
func toHub(context string) (*rest.Config, error) {
	config, err := startingConfig()
	if err != nil {
		return nil, err
	}
	if context != "" {
		if config.Contexts[context] == nil {
			return nil, fmt.Errorf("--hub-context: the kubeconfig has no context %q", context)
		}
		config.CurrentContext = context
	}
	return search.HubConfig(config)
}
