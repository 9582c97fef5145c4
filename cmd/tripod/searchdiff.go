// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/cobra"

	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/admin/search"
)

func newSearchDiffCommand() *cobra.Command {
	var d search.Difference
	cmd := &cobra.Command{
		Use:   "diff [TYPE...]",
		Short: "Show what has changed in clusters",
		Long: `Show what has changed in clusters between two moments, as far as the history of search goes.

  tripod search diff --since 10m --owner deployment/web
  tripod search diff deployments,services -n shop -o diff
  tripod search diff pods --cluster east --from 2026-11-25T04:00:00Z --to 2026-11-25T04:05:00Z

--owner also shows the changes of what the object owns, such as replica sets and pods. Changes of resourceVersion, generation and managedFields alone
are not shown. A reader sees the changes of objects that are visible to this reader now.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := d.Writer()
			if err != nil {
				return err
			}
			to, err := toHub("")
			if err != nil {
				return err
			}
			if err := d.Complete(to, args); err != nil {
				return err
			}
			clients, err := kubernetes.NewForConfig(to)
			if err != nil {
				return err
			}
			answer, err := d.Ask(cmd.Context(), clients.RESTClient())
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), answer)
		},
	}
	fs := cmd.Flags()
	fs.DurationVar(&d.Since, "since", 10*time.Minute, "how long ago the first moment is, unless --from says it")
	fs.StringVar(&d.From, "from", "",
		"first moment: a time such as 2026-11-25T04:00:00Z, how long ago, such as 10m, or a resourceVersion of search")
	fs.StringVar(&d.To, "to", "now", "second moment")
	fs.StringVar(&d.Cluster, "cluster", search.AllClusters, "cluster; "+search.AllClusters+" means all of them")
	fs.StringVarP(&d.Namespace, "namespace", "n", "", "namespace; empty means all of them")
	fs.StringVar(&d.OwnedBy, "owner", "", "object that owns the others, as TYPE/NAME or RESOURCE.GROUP/NAME")
	fs.IntVar(&d.Generations, "generations", 2, "generations below the owner; 1 means only what it owns itself")
	fs.StringVarP(&d.Labels, "selector", "l", "", "labels of objects, and parameters of search")
	fs.StringVar(&d.Fields, "field-selector", "", "fields of objects, such as status.phase=Failed")
	fs.StringVarP(&d.Output, "output", "o", "summary", "format of the output: summary, diff or json")
	cmd.MarkFlagsMutuallyExclusive("since", "from")
	return cmd
}
