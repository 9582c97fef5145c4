// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/admin/search"
)

func newSearchGetCommand() *cobra.Command {
	var q search.Question
	cmd := &cobra.Command{
		Use:   "get TYPE [NAME...]",
		Short: "Find objects in all clusters, and show the kubectl command that does it",
		Long: `Find objects in all clusters, and show the kubectl command that does it.

  tripod search get pods --owner deployment/web
  tripod search get deployments --fuzzy ngin --order created_at_desc
  tripod search get pods --cluster east -n default --field-selector 'spec.containers[].image=nginx:1.25'
  tripod search get pods --field-selector status.phase=Failed --watch
  tripod search get pods --text nginx --text envoy --in metadata.name,spec.containers[].image
  tripod search get deployments --order spec.replicas_desc,name

Run tripod search kubeconfig once before.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := startingConfig()
			if err != nil {
				return err
			}
			missing := q.Check(config)
			command, err := q.Command(args, cmd.Flags().Changed("generations"))
			if err := cmp.Or(err, missing); err != nil {
				return err
			}
			sayCommand(cmd.ErrOrStderr(), command)
			runKubectl(command)
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&q.Cluster, "cluster", search.AllClusters, "cluster to search; "+search.AllClusters+" means all of them")
	fs.StringVarP(&q.Namespace, "namespace", "n", "", "namespace; empty means all of them")
	fs.StringVar(&q.Owner, "owner", "", "owner of the objects, as TYPE/NAME or RESOURCE.GROUP/NAME")
	fs.IntVar(&q.Generations, "generations", 0,
		"generations between the owner and the objects; by default 1 for the pods of deployments and cronjobs, and otherwise 0")
	fs.StringVar(&q.Fuzzy, "fuzzy", "", "part of the name")
	fs.StringVarP(&q.Selector, "selector", "l", "", "labels of objects, and parameters of search")
	fs.StringVar(&q.Fields, "field-selector", "", "fields of objects, such as status.phase=Failed")
	fs.StringArrayVar(&q.Texts, "text", nil,
		"find objects with this text in a field of --in, in upper or lower case; repeat it for one of several texts")
	fs.StringSliceVar(&q.In, "in", []string{"metadata.name"}, "fields for --text")
	fs.StringVar(&q.Order, "order", "", "columns and fields to sort by, such as created_at_desc,name or spec.replicas_desc")
	fs.IntVar(&q.Limit, "limit", search.KubectlLimit, "objects to return at most; 0 returns all")
	fs.StringVar(&q.MaxStaleness, "max-staleness", "", "how old the copies of the clusters may be, such as 30s; empty accepts any age")
	fs.BoolVarP(&q.Watch, "watch", "w", false, "go on with what changes, until Ctrl-C")
	fs.StringVarP(&q.Output, "output", "o", "", "format of the output, as of kubectl")
	return cmd
}

// sayCommand prints a command that a shell understands.
func sayCommand(out io.Writer, arguments []string) {
	fmt.Fprintln(out, "kubectl", shellescape.QuoteCommand(arguments))
}
