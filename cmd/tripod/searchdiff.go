// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/tripod-k8s/tripod/services/search/diff"
)

// difference is what tripod search diff asks.
type difference struct {
	diff.Question
	since         time.Duration
	owner, output string
}

func newSearchDiffCommand() *cobra.Command {
	var d difference
	cmd := &cobra.Command{
		Use:   "diff [TYPE...]",
		Short: "Show what has changed in clusters",
		Long: `Show what has changed in clusters between two moments, as far as the history of search goes.

  tripod search diff --since 10m --owner deployment/web
  tripod search diff deployments,services -n shop -o diff
  tripod search diff pods --cluster east --from 2026-11-25T04:00:00Z --to 2026-11-25T04:05:00Z

--owner also shows the changes of what the object owns, such as replica sets and pods. Changes of resourceVersion, generation and managedFields alone
are not shown. A reader sees the changes of objects that he may see now.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := d.writer()
			if err != nil {
				return err
			}
			to, err := toHub()
			if err != nil {
				return err
			}
			if err := d.complete(to, args); err != nil {
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
	fs.DurationVar(&d.since, "since", 10*time.Minute, "how long ago the first moment is, unless --from says it")
	fs.StringVar(&d.From, "from", "",
		"first moment: a time such as 2026-11-25T04:00:00Z, how long ago, such as 10m, or a resourceVersion of search")
	fs.StringVar(&d.To, "to", "now", "second moment")
	fs.StringVar(&d.Cluster, "cluster", allClusters, "cluster; "+allClusters+" means all of them")
	fs.StringVarP(&d.Namespace, "namespace", "n", "", "namespace; empty means all of them")
	fs.StringVar(&d.owner, "owner", "", "object that owns the others, as TYPE/NAME or RESOURCE.GROUP/NAME")
	fs.IntVar(&d.Generations, "generations", 2, "generations below the owner; 1 means only what it owns itself")
	fs.StringVarP(&d.Labels, "selector", "l", "", "labels of objects, and parameters of search")
	fs.StringVar(&d.Fields, "field-selector", "", "fields of objects, such as status.phase=Failed")
	fs.StringVarP(&d.output, "output", "o", "summary", "format of the output: summary, diff or json")
	cmd.MarkFlagsMutuallyExclusive("since", "from")
	return cmd
}

// writer returns what writes an answer in the format that is asked for.
func (d *difference) writer() (func(io.Writer, *diff.Answer) error, error) {
	switch d.output {
	case "summary":
		return func(out io.Writer, a *diff.Answer) error { return a.Summary(out, time.Now()) }, nil
	case "diff":
		return func(out io.Writer, a *diff.Answer) error { return a.Unified(out) }, nil
	case "json":
		return func(out io.Writer, a *diff.Answer) error { return a.JSON(out) }, nil
	}
	return nil, fmt.Errorf("--output %s: write summary, diff or json", d.output)
}

// complete reads flags and arguments.
func (d *difference) complete(to *rest.Config, types []string) (err error) {
	if d.From == "" {
		if d.since <= 0 {
			return fmt.Errorf("--since %s: write a duration, such as 10m", d.since)
		}
		d.From = time.Now().Add(-d.since).UTC().Format(time.RFC3339Nano)
	}
	if d.Cluster == allClusters {
		d.Cluster = ""
	}
	if d.owner != "" {
		if d.OwnerResource, d.Owner, err = ownerOf(d.owner); err != nil {
			return err
		}
	}
	d.Resources, err = resourcesOf(to, types)
	return err
}

// resourcesOf finds the resources that kubectl would find for some types, among those that search copies.
func resourcesOf(to *rest.Config, types []string) (resources []schema.GroupResource, err error) {
	if len(types) == 0 {
		return nil, nil
	}
	below := rest.CopyConfig(to)
	below.Host += searchPath
	client, err := discovery.NewDiscoveryClientForConfig(below)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(client)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	for _, name := range strings.Split(strings.Join(types, ","), ",") {
		found, err := mapper.ResourceFor(schema.ParseGroupResource(name).WithVersion(""))
		if err != nil {
			return nil, fmt.Errorf("search has no resource %s: %w", name, err)
		}
		resources = append(resources, found.GroupResource())
	}
	return resources, nil
}
