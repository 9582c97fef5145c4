// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tripod-k8s/tripod/admin/etcd/split"
)

func newMigrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move data between etcds, and from definitions to API services",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSplitEtcdCommand(), newMigrateGroupsCommand(), newMigrateCheckCRDCommand(), newMigrateCRDCommand())
	return cmd
}

func newSplitEtcdCommand() *cobra.Command {
	var format listFormat
	o := split.Options{Source: split.Etcd{Flag: "from"}, Target: split.Etcd{Flag: "extensions-to"}}
	cmd := &cobra.Command{
		Use:   "split-etcd --from URL --extensions-to URL",
		Short: "Give custom resources an etcd of their own",
		Long: `Copy CustomResourceDefinitions and custom resources from the etcd of all services to one for extensions alone, and
compare the two. The command does not change the source. Afterwards, start extensions with the target as its --etcd-servers.

Stop extensions (or kube-apiserver) first: custom resources must not change during the copy. The command checks that at the
end. Built-in APIs stay available. The resourceVersions of custom resources never decrease, and clients that watch them list again.

If the command is interrupted, run it again. A later run with --delete-source deletes from the source what was copied,
unless it has changed there since.`,
		Example: `  tripod migrate split-etcd --from https://10.0.0.1:2379 --extensions-to https://10.0.0.2:2379 \
    --from-cafile ca.crt --from-certfile client.crt --from-keyfile client.key \
    --extensions-to-cafile ca2.crt --extensions-to-certfile client2.crt --extensions-to-keyfile client2.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			silenceGRPC()
			o.Progress = progressTo(cmd.ErrOrStderr())
			report, err := split.Run(ctx, o)
			if err != nil && ctx.Err() != nil {
				return errInterrupted
			}
			if err != nil {
				return err
			}
			var names []string
			for _, resource := range report.Resources {
				names = append(names, resource.Name)
			}
			return printValue(cmd.OutOrStdout(), format, report, names, printSplit)
		},
	}
	addEtcdFlags(cmd, &o.Source, "the etcd that has everything")
	addEtcdFlags(cmd, &o.Target, "the etcd that extensions is to have; it must be empty")
	cmd.Flags().StringVar(&o.Prefix, "etcd-prefix", "/registry", "prefix of all keys, as the services have it")
	cmd.Flags().BoolVar(&o.DeleteSource, "delete-source", false, "delete from the source what was copied")
	addReportFormat(cmd, &format)
	return cmd
}

// errInterrupted is the error of a move that a signal has ended, and that can go on.
var errInterrupted = errors.New("interrupted; run the same command again to go on")

// addMaxPause adds --max-pause for a move that pauses writes.
func addMaxPause(fs *pflag.FlagSet, most *time.Duration) {
	fs.DurationVar(most, "max-pause", split.MaxPause, "how long writes may pause for copies before the command gives up and they go on")
}

// addReportFormat adds --output for a report, which is one object and not a list.
func addReportFormat(cmd *cobra.Command, format *listFormat) {
	addListFormat(cmd, format)
	cmd.Flags().Lookup("output").Usage =
		"format of the output: table, json, yaml, name, or jsonpath=EXPRESSION as in jsonpath={.resources[*].name}"
}

// addEtcdFlags adds the flags that locate an etcd.
func addEtcdFlags(cmd *cobra.Command, etcd *split.Etcd, what string) {
	cmd.Flags().StringSliceVar(&etcd.Servers, etcd.Flag, nil, "URLs of "+what)
	cmd.Flags().StringVar(&etcd.CAFile, etcd.Flag+"-cafile", "", "CA of its certificate")
	cmd.Flags().StringVar(&etcd.CertFile, etcd.Flag+"-certfile", "", "client certificate for it")
	cmd.Flags().StringVar(&etcd.KeyFile, etcd.Flag+"-keyfile", "", "key of the client certificate")
	if err := cmd.MarkFlagRequired(etcd.Flag); err != nil {
		panic(err) // there is no such flag
	}
}

func printSplit(out io.Writer, report *split.Report) error {
	table := newTable(out, "RESOURCE", "OBJECTS", "SHA-256")
	for _, resource := range report.Resources {
		row(table, resource.Name, resource.Objects, resource.Checksum)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", whatWasDone(report))
	return err
}

// whatWasDone says what a run has changed, and nothing about what it had not to do.
func whatWasDone(report *split.Report) string {
	var done []string
	for _, each := range []struct {
		n    int64
		what string
	}{
		{report.Written, "written to the target"}, {report.Unchanged, "there from an earlier run"},
		{report.Removed, "removed from the target"}, {report.DeletedFromSource, "deleted from the source"},
	} {
		if each.n > 0 {
			done = append(done, fmt.Sprintf("%d %s", each.n, each.what))
		}
	}
	if done == nil {
		return "an earlier run has done everything"
	}
	return "objects: " + strings.Join(done, ", ")
}
