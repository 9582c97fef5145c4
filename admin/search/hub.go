// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package search administers the clusters that search copies, and asks search: `tripod search`.
package search

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AllClusters is the name of the entry for all clusters in a kubeconfig. Clusterpedia has given it this name.
const AllClusters = "clusterpedia"

// Path is where search serves the objects of clusters.
const Path = "/apis/clusterpedia.io/v1beta1/resources"

// WriteEntries asks the server of the current context for the clusters of search, and adds them.
func WriteEntries(ctx context.Context, paths *clientcmd.PathOptions, out io.Writer) error {
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
	hub.Server, _, _ = strings.Cut(hub.Server, Path)
	entries := map[string]string{AllClusters: hub.Server + Path}
	for _, name := range names {
		entries[name] = hub.Server + Path + "/clusters/" + name
	}
	for _, name := range append([]string{AllClusters}, names...) {
		switch old := config.Clusters[name]; {
		case old != nil && !strings.Contains(old.Server, Path):
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
	to, err := HubConfig(config)
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(to)
	if err != nil {
		return nil, err
	}
	text, err := clients.RESTClient().Get().AbsPath(Path + "/clusters").DoRaw(ctx)
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

// HubConfig returns how to reach the cluster that search is part of. The current context of a kubeconfig may be one of search.
func HubConfig(config *clientcmdapi.Config) (*rest.Config, error) {
	to, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	to.Host, _, _ = strings.Cut(to.Host, Path)
	return to, nil
}
