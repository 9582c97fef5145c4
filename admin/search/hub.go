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
	for _, name := range append([]string{AllClusters}, names...) {
		entry := hub
		if entry.Server += Path; name != AllClusters {
			entry.Server += "/clusters/" + name
		}
		as := EntryName(config, name)
		if as == "" {
			fmt.Fprintf(out, "%s: left out, because %s and %s are entries of other servers\n", name, name, entryPrefix+name)
			continue
		}
		config.Clusters[as] = &entry
		config.Contexts[as] = &clientcmdapi.Context{Cluster: as, AuthInfo: current.AuthInfo}
		fmt.Fprintf(out, "%s: kubectl --cluster %s get pods -A\n", name, as)
	}
	return clientcmd.ModifyConfig(paths, *config, false)
}

// entryPrefix is before the name of a cluster if the kubeconfig has an entry of that name for the cluster itself.
const entryPrefix = "search-"

// EntryName returns the name of the entries of search for a cluster: its own one, or else one with a prefix if a cluster or a context of
// the kubeconfig has that, and an empty one if that is in use, too.
func EntryName(config *clientcmdapi.Config, cluster string) string {
	for _, name := range []string{cluster, entryPrefix + cluster} {
		entry, context := config.Clusters[name], config.Contexts[name]
		if (entry == nil || strings.Contains(entry.Server, Path)) && (context == nil || context.Cluster == name) {
			return name
		}
	}
	return ""
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
