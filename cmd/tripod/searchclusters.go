// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/admin/search"
)

func newSearchClustersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clusters",
		Short: "Add, list and remove the clusters that search copies",
		Long: `Add, list and remove the clusters that search copies. They are PediaClusters in the cluster that search is part of, which
$KUBECONFIG names, or else the instance on this machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSearchClustersAddCommand(), newSearchClustersListCommand(), newSearchClustersRemoveCommand())
	return cmd
}

func newSearchClustersAddCommand() *cobra.Command {
	var a search.Addition
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "add NAME --kubeconfig FILE",
		Short: "Have search copy a cluster",
		Long: `Have search copy a cluster, and wait until all of its objects are there.

  tripod search clusters add east --kubeconfig east.kubeconfig
  tripod search clusters add west --kubeconfig west.kubeconfig --resources pods,deployments.apps,*.example.com

Search connects with the kubeconfig, from where it runs. The user in it must be allowed to list and watch what is copied.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Name = args[0]
			spec, err := a.Spec()
			if err != nil {
				return err
			}
			clusters, err := pediaClusters()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.Add(ctx, clusters, spec, progressTo(cmd.OutOrStdout()))
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&a.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to add")
	fs.StringVar(&a.Context, "context", "", "context in that file; empty means its current one")
	fs.StringSliceVar(&a.Resources, "resources", []string{"*.*"},
		"resources to copy, as RESOURCE or RESOURCE.GROUP; * stands for all, but no Secrets")
	fs.BoolVar(&a.Wait, "wait", true, "wait until the objects are copied")
	fs.DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	_ = cmd.MarkFlagRequired("kubeconfig") // the flag exists
	return cmd
}

func newSearchClustersListCommand() *cobra.Command {
	var format listFormat
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the clusters that search was told to copy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			clusters, err := pediaClusters()
			if err != nil {
				return err
			}
			all, err := search.List(cmd.Context(), clusters)
			if err != nil {
				return err
			}
			return printList(cmd.OutOrStdout(), format, all, func(c search.Cluster) string { return c.Name }, search.Print)
		},
	}
	addListFormat(cmd, &format)
	return cmd
}

func newSearchClustersRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME...",
		Short: "Have search forget clusters and their objects",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			clusters, err := pediaClusters()
			if err != nil {
				return err
			}
			return search.Remove(cmd.Context(), clusters, names, cmd.OutOrStdout())
		},
	}
}

// pediaClusters returns the PediaClusters of the cluster that search is part of.
func pediaClusters() (dynamic.ResourceInterface, error) {
	hub, err := toHub()
	if err != nil {
		return nil, err
	}
	return search.PediaClusters(hub)
}
