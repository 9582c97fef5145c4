// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/admin/etcd/split"
)

func newMigrateGroupsCommand() *cobra.Command {
	var format listFormat
	o := split.GroupOptions{Shared: split.Etcd{Flag: "extensions-etcd"}, Own: split.Etcd{Flag: "partition-etcd"}}
	cmd := &cobra.Command{
		Use:   "groups --to PARTITION --extensions-etcd URL --partition-etcd URL GROUP...",
		Short: "Move API groups to the etcd of their partition, or back",
		Long: `Move the custom resources of API groups from the etcd of extensions to the etcd of the partition that serves them, or back
with --to extensions. Clients go on meanwhile.

The command copies while clients write. Then writes pause, with 503 and Retry-After, until it has copied what has changed, and
compared both etcds. Reads and watches go on. Then replicas use the other etcd, and clients that watch list again, once.

First start the replicas of the partition with the etcd (--group-etcd-servers, or --extensions-partition-etcd-servers of tripod
up). If the command dies, writes go on within 10 seconds, and the objects are where they were or where they should go. Run it
again, or with the other --to.`,
		Example: `  tripod migrate groups --to big --extensions-etcd https://10.0.0.1:2379 --partition-etcd https://10.0.0.2:2379 \
    --extensions-etcd-cafile ca.crt --extensions-etcd-certfile root.crt --extensions-etcd-keyfile root.key \
    --partition-etcd-cafile ca2.crt --partition-etcd-certfile root2.crt --partition-etcd-keyfile root2.key a.example.com`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, groups []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			silenceGRPC()
			o.Groups, o.Progress = groups, progressTo(cmd.ErrOrStderr())
			reports, err := split.MoveGroups(ctx, o)
			if err != nil && ctx.Err() != nil {
				return errInterrupted
			}
			if err != nil {
				return err
			}
			name := func(r split.GroupReport) string { return r.Group }
			table := func(out io.Writer, reports []split.GroupReport) error { return printGroups(out, reports, o.DryRun) }
			return printList(cmd.OutOrStdout(), format, reports, name, table)
		},
	}
	addEtcdFlags(cmd, &o.Shared, "the etcd that has CustomResourceDefinitions, --etcd-servers of extensions")
	addEtcdFlags(cmd, &o.Own, "the etcd of the partition, its --group-etcd-servers")
	cmd.Flags().StringVar(&o.To, "to", "", "partition to whose etcd the groups move, or extensions")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // there is no such flag
	}
	cmd.Flags().StringVar(&o.Prefix, "etcd-prefix", "/registry", "prefix of all keys, as the services have it")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say what would move, and estimate how long that takes")
	cmd.Flags().BoolVar(&o.DeleteSource, "delete-source", false, "delete the objects from the etcd that had them, once they have moved")
	addMaxPause(cmd.Flags(), &o.MaxPause)
	addListFormat(cmd, &format)
	// For tests of moves that die.
	cmd.Flags().DurationVar(&o.PauseTTL, "pause-ttl", split.PauseTTL, "how long writes stay paused after the command has died")
	if err := cmd.Flags().MarkHidden("pause-ttl"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

func printGroups(out io.Writer, reports []split.GroupReport, estimated bool) error {
	seconds, paused := "SECONDS", "PAUSED"
	if estimated {
		seconds, paused = "SECONDS (ESTIMATE)", "PAUSED (ESTIMATE)"
	}
	table := newTable(out, "GROUP", "TO", "OBJECTS", "KIB", seconds, paused)
	for _, report := range reports {
		var objects int64
		for _, resource := range report.Resources {
			objects += resource.Objects
		}
		row(table, report.Group, report.To, objects, report.Bytes>>10,
			fmt.Sprintf("%.1f", report.Seconds), fmt.Sprintf("%.1f", report.PausedSeconds))
	}
	return table.Flush()
}
