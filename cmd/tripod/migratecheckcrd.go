// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/admin/crd"
	"github.com/tripod-k8s/tripod/local/up"
)

func newMigrateCheckCRDCommand() *cobra.Command {
	var kubeconfig, server string
	var format listFormat
	var o crd.Options
	cmd := &cobra.Command{
		Use:   "check-crd GROUP --service SERVICE",
		Short: "Check whether an API service could take the place of CustomResourceDefinitions",
		Long: `Ask an API service whether it could serve the custom resources of an API group as they are. The command compares names, scopes,
versions and subresources, and has the service decode, store and encode each object in its memory. It names the first field
that would be lost, change, or be added by a default, and the first object that the service would not accept. It changes
nothing, and clients do not notice.

You need rights for the objects, and for the nonResourceURLs /migration/GROUP and /migration/GROUP/* with the verbs get and post.

The instance is the one in $` + up.DataDirVariable + ` or ` + up.DefaultDataDirHelp + ` unless $KUBECONFIG or --kubeconfig names another.`,
		Example: `  tripod migrate check-crd library.example.com --service books`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Config, err = checkedConfig(kubeconfig, server); err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			o.Group, o.Progress = args[0], progressTo(cmd.ErrOrStderr())
			report, err := crd.Check(ctx, o)
			if err != nil {
				return err
			}
			name := func(r crd.Resource) string { return r.Name }
			return printList(cmd.OutOrStdout(), format, report.Resources, name, printCheckedCRDs)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	addKubeconfigName(cmd, &kubeconfig)
	fs.StringVar(&server, "server", "", "URL of the API, instead of the one in the kubeconfig")
	fs.StringVar(&o.Service, "service", "", "name of the API service")
	if err := cmd.MarkFlagRequired("service"); err != nil {
		panic(err) // there is no such flag
	}
	addListFormat(cmd, &format)
	return cmd
}

func printCheckedCRDs(out io.Writer, resources []crd.Resource) error {
	table := newTable(out, "RESOURCE", "OBJECTS", "KIB")
	for _, r := range resources {
		row(table, r.Name, r.Objects, r.Bytes>>10)
	}
	return table.Flush()
}
