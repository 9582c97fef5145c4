// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/admin/search"
	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
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

// addition has the flags of tripod search clusters add.
type addition struct {
	search.Fleet
	kubeconfig, hub string
	timeout         time.Duration
	format          listFormat
}

func newSearchClustersAddCommand() *cobra.Command {
	a := &addition{}
	cmd := &cobra.Command{
		Use:   "add [NAME] --context CONTEXT...",
		Short: "Have search copy clusters",
		Long: `Have search copy clusters, and wait until all of their objects are there.

  tripod search clusters add --context east --context west
  tripod search clusters add --context east=admin@east.example.com --resources pods,deployments.apps,*.example.com
  tripod search clusters add --context east --dry-run
  tripod search clusters add east --kubeconfig east.kubeconfig

With --context, the command uses your login of that context once, also if a program makes it. In the cluster, it creates a service account that may list and
watch what is copied, but no Secrets. In the cluster of search, it creates a Secret with a token of that account, which search renews. Repeat the command
for a new token, or after the cluster has got new API groups.

Contexts are those of kubectl ($KUBECONFIG or ~/.kube/config), or of --kubeconfig.

Without --context, search itself logs in as the user of the current context of --kubeconfig, whose credentials it keeps.

Search connects from where it runs.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Name = strings.Join(args, "")
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			ctx, cancel := context.WithTimeout(ctx, a.timeout)
			defer cancel()
			if len(a.Contexts) == 0 {
				return a.withKubeconfig(ctx, cmd)
			}
			return a.withAccounts(ctx, cmd)
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&a.Contexts, "context", nil, "context of a cluster to add, or NAME=CONTEXT; repeat it for several")
	fs.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig of the clusters to add")
	addHubFlag(cmd, &a.hub)
	fs.StringSliceVar(&a.Resources, "resources", []string{"*.*"},
		"resources to copy, as RESOURCE or RESOURCE.GROUP; * stands for all, but no Secrets")
	fs.StringVar(&a.Server, "server", "", "URL by which search reaches the API server, if it is not that of the context")
	fs.StringVar(&a.Namespace, "account-namespace", metav1.NamespaceSystem, "namespace of the service account in the cluster")
	fs.StringVar(&a.SecretNamespace, "secret-namespace", v1alpha2.StandardSecretNamespace,
		"namespace of the Secret in the cluster of search, which is that of its flag --secret-namespace")
	fs.DurationVar(&a.Lifetime, "token-lifetime", 7*24*time.Hour,
		"lifetime of tokens; search renews a token after a third of it, and may be away for the rest. A cluster may shorten it")
	fs.BoolVar(&a.DryRun, "dry-run", false, "only check the logins and the rights, and show what would be created")
	fs.BoolVar(&a.Wait, "wait", true, "wait until the objects are copied")
	fs.DurationVar(&a.timeout, "timeout", 5*time.Minute, "how long to wait")
	addListFormat(cmd, &a.format)
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts) // the flag exists
	return cmd
}

// withKubeconfig adds a cluster with the credentials of a kubeconfig.
func (a *addition) withKubeconfig(ctx context.Context, cmd *cobra.Command) error {
	if a.Name == "" || a.kubeconfig == "" {
		return withHelp(cmd, errors.New("name a --context, or NAME and --kubeconfig"))
	}
	for _, flag := range []string{"server", "account-namespace", "secret-namespace", "token-lifetime", "dry-run", "output"} {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s needs --context", flag)
		}
	}
	one := search.Addition{Name: a.Name, Kubeconfig: a.kubeconfig, Resources: a.Resources, Wait: a.Wait}
	spec, err := one.Spec()
	if err != nil {
		return err
	}
	hub, err := toHub(a.hub)
	if err != nil {
		return err
	}
	clusters, err := search.PediaClusters(hub)
	if err != nil {
		return err
	}
	return one.Add(ctx, clusters, spec, progressTo(cmd.OutOrStdout()))
}

// withAccounts adds clusters in which search gets accounts.
func (a *addition) withAccounts(ctx context.Context, cmd *cobra.Command) (err error) {
	if a.Config, err = contexts(a.kubeconfig); err != nil {
		return err
	}
	all, err := a.Plan()
	if err != nil {
		return err
	}
	if a.Hub, err = toHub(a.hub); err != nil {
		return err
	}
	a.Progress = progressTo(cmd.ErrOrStderr())
	err = a.Add(ctx, all)
	name := func(one *search.Added) string { return one.Name }
	return cmp.Or(err, printList(cmd.OutOrStdout(), a.format, all, name, search.PrintAdded))
}

// contexts returns the kubeconfig of the caller. Call it before toHub.
func contexts(file string) (*clientcmdapi.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	config, err := rules.Load()
	if err != nil && file != "" {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, err
}

func completeContexts(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	file, _ := cmd.Flags().GetString("kubeconfig") // the flag exists
	config, err := contexts(file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := slices.Sorted(maps.Keys(config.Contexts))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) }), cobra.ShellCompDirectiveNoFileComp
}

func newSearchClustersListCommand() *cobra.Command {
	var format listFormat
	var hub string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the clusters that search copies, or will copy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			clusters, err := pediaClusters(hub)
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
	addHubFlag(cmd, &hub)
	return cmd
}

func newSearchClustersRemoveCommand() *cobra.Command {
	var r search.Removal
	var kubeconfig, hub string
	cmd := &cobra.Command{
		Use:   "remove NAME...",
		Short: "Have search forget clusters and their objects",
		Long: `Have search forget clusters and their objects. If search has an account in a cluster, the command removes that, too, with your login of the context that the
cluster was added with.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeClusters(&hub),
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if r.Config, err = contexts(kubeconfig); err != nil {
				return err
			}
			if r.Hub, err = toHub(hub); err != nil {
				return err
			}
			return r.Remove(cmd.Context(), names, cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&r.Context, "context", "", "context of the cluster, if it is not the one that it was added with")
	fs.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig with the contexts of the clusters")
	addHubFlag(cmd, &hub)
	fs.BoolVar(&r.KeepAccount, "keep-account", false, "leave the account of search in the cluster")
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts) // the flag exists
	return cmd
}

// addHubFlag adds the flag that names the cluster that search is part of.
func addHubFlag(cmd *cobra.Command, hub *string) {
	cmd.Flags().StringVar(hub, "hub-context", "", "context of the cluster that search is part of; empty means the current one")
	_ = cmd.RegisterFlagCompletionFunc("hub-context", completeHubs) // the flag exists
}

// pediaClusters returns the PediaClusters of the cluster that search is part of, by a context or, if that is empty, by the current one.
func pediaClusters(context string) (dynamic.ResourceInterface, error) {
	hub, err := toHub(context)
	if err != nil {
		return nil, err
	}
	return search.PediaClusters(hub)
}

// completeClusters completes arguments to the names of PediaClusters that are not yet among them.
func completeClusters(hub *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		clusters, err := pediaClusters(*hub)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		all, err := search.List(ctx, clusters)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, c := range all {
			if strings.HasPrefix(c.Name, prefix) && !slices.Contains(args, c.Name) {
				names = append(names, c.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeHubs completes a flag to the contexts by which [toHub] finds the cluster that search is part of.
func completeHubs(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	config, err := startingConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := slices.Sorted(maps.Keys(config.Contexts))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) }), cobra.ShellCompDirectiveNoFileComp
}
