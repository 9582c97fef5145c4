// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// allClusters is the name of the entry for all clusters in a kubeconfig. Clusterpedia has given it this name.
const allClusters = "clusterpedia"

// searchPath is where search serves the objects of clusters.
const searchPath = "/apis/clusterpedia.io/v1beta1/resources"

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
		Short: "Add the clusters of search to a kubeconfig, for kubectl --cluster",
		Long: `Add the clusters of search to a kubeconfig, for kubectl --cluster: ` + allClusters + ` for all of them, and one entry for each.

  tripod search kubeconfig
  tripod kubectl --cluster ` + allClusters + ` get pods -A
  tripod kubectl --cluster hub get pods -A

The kubeconfig is that of kubectl. The current context says which instance to ask, and as whom.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if paths.LoadingRules.ExplicitPath == "" {
				if err := preferInstance(nil); err != nil {
					return err
				}
				paths = clientcmd.NewDefaultPathOptions()
			}
			return writeSearchEntries(cmd.Context(), paths, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&paths.LoadingRules.ExplicitPath, paths.ExplicitFileFlag, "", "file to change")
	return cmd
}

// writeSearchEntries asks the server of the current context for the clusters of search, and adds them.
func writeSearchEntries(ctx context.Context, paths *clientcmd.PathOptions, out io.Writer) error {
	config, err := paths.GetStartingConfig()
	if err != nil {
		return err
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil {
		return fmt.Errorf("the kubeconfig has no current context: choose one with kubectl config use-context")
	}
	names, err := searchedClusters(ctx, config)
	if err != nil {
		return err
	}
	hub := *config.Clusters[current.Cluster]
	hub.Server, _, _ = strings.Cut(hub.Server, searchPath)
	entries := map[string]string{allClusters: hub.Server + searchPath}
	for _, name := range names {
		entries[name] = hub.Server + searchPath + "/clusters/" + name
	}
	for _, name := range append([]string{allClusters}, names...) {
		switch old := config.Clusters[name]; {
		case old != nil && !strings.Contains(old.Server, searchPath):
			fmt.Fprintf(out, "%s: left as it is, because it is another server's: %s\n", name, old.Server)
		default:
			entry := hub
			entry.Server = entries[name]
			config.Clusters[name] = &entry
			fmt.Fprintf(out, "%s: kubectl --cluster %s get pods -A\n", name, name)
		}
	}
	return clientcmd.ModifyConfig(paths, *config, false)
}

// searchedClusters returns the names of the clusters that search knows.
func searchedClusters(ctx context.Context, config *clientcmdapi.Config) ([]string, error) {
	to, err := hubConfig(config)
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(to)
	if err != nil {
		return nil, err
	}
	text, err := clients.RESTClient().Get().AbsPath(searchPath + "/clusters").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot ask search for its clusters: %w; tripod up --search runs it", err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("the server answers with something else than clusters: %w", err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, nil
}

// startingConfig returns the kubeconfig that the commands go by, as kubectl would.
func startingConfig() (*clientcmdapi.Config, error) {
	if err := preferInstance(nil); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultPathOptions().GetStartingConfig()
}

// toHub returns how to reach the cluster that search is part of.
func toHub() (*rest.Config, error) {
	config, err := startingConfig()
	if err != nil {
		return nil, err
	}
	return hubConfig(config)
}

// hubConfig returns how to reach the cluster that search is part of. The current context of a kubeconfig may be one of search.
func hubConfig(config *clientcmdapi.Config) (*rest.Config, error) {
	to, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	to.Host, _, _ = strings.Cut(to.Host, searchPath)
	return to, nil
}
