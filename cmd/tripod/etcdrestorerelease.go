// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tripod-k8s/tripod/admin/etcd/releases"
)

func newEtcdRestoreReleaseCommand() *cobra.Command {
	var where connection
	var o releases.Options
	var dryRun bool
	var format string
	cmd := &cobra.Command{
		Use:   "restore-release RELEASE {SNAPSHOT | s3://BUCKET/KEY}",
		Short: "Restore an etcd of a Helm release from a snapshot that the release has saved",
		Long: `Restore an etcd of a Helm release, with all members, from a snapshot of its CronJob (etcd.snapshots), or from another one on the same S3 server.

The command checks the snapshot, stops the services that use the etcd, and then the etcd. A Job for each member replaces its data and
keeps the old data in the volume. Then everything starts again. If a check fails, or something does not stop, nothing is replaced, and
everything starts with the old data. If the command is interrupted, run it again: it continues. It says when the etcd is restored and
only a service does not start: do not run it again then.

A restore adds 1,000,000,000 to the revision of the snapshot, and all that earlier restores of the etcd by this command have added, so
that no resourceVersion goes back. After a restore by other means (etcd.restore of the chart), give --bump-revision a number larger than
what all restores since the snapshot have added.

--dry-run checks the snapshot in a Job, shows what would stop and what would be replaced, and changes nothing.

You need the rights to get, list and patch Deployments and StatefulSets, to get CronJobs, to create, get and delete Jobs, to list Pods and to get their logs.`,
		Example: `  tripod etcd restore-release tripod etcd-20261121T060500Z.db --namespace tripod --dry-run
  tripod etcd restore-release tripod s3://backups/tripod/tripod/etcd-20261121T060500Z.db --namespace tripod
  tripod etcd restore-release tripod etcd-extensions-20261121T060500Z.db --namespace tripod --etcd etcd-extensions`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, formatText); err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			_, client, namespace, err := where.host()
			if err != nil {
				return err
			}
			o.Client, o.Namespace, o.Release, o.Snapshot = client, namespace, args[0], args[1]
			o.Progress = progressTo(cmd.ErrOrStderr())
			if !dryRun {
				if err := releases.Restore(ctx, o); err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s of the release %s is restored from %s\n", o.Etcd, o.Release, o.Snapshot)
				return err
			}
			plan, err := releases.DryRun(ctx, o)
			if err != nil {
				return err
			}
			if format == formatJSON {
				return printJSON(cmd.OutOrStdout(), plan)
			}
			return printReleasePlan(cmd.OutOrStdout(), plan)
		},
	}
	addRestoreReleaseFlags(cmd.Flags(), &where, &o)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check, show what would be done, and change nothing")
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format of what --dry-run shows: text or json")
	return cmd
}

func addRestoreReleaseFlags(fs *pflag.FlagSet, where *connection, o *releases.Options) {
	where.addHostFlags(fs)
	fs.StringVar(&o.Etcd, "etcd", "etcd", "which etcd of the release: etcd, etcd-extensions, or etcd-extensions-PARTITION")
	fs.BoolVar(&o.OtherCluster, "other-cluster", false, "replace data also if the snapshot is of another etcd")
	fs.Uint64Var(&o.BumpRevision, "bump-revision", 0,
		"number to add to the revision; by default 1,000,000,000 more than earlier restores by this command together")
}

// printReleasePlan prints what a restore of a release would do.
func printReleasePlan(out io.Writer, p *releases.Plan) error {
	var text strings.Builder
	checked, _, _ := strings.Cut(p.Checked, "\n")
	fmt.Fprintln(&text, checked)
	for _, d := range p.Stops {
		fmt.Fprintf(&text, "%s would stop, and start again with %d replicas\n", d.Name, d.Replicas)
	}
	for _, member := range p.Members {
		fmt.Fprintf(&text, "%s would stop, and start with the snapshot; the old data would stay in its volume\n", member)
	}
	text.WriteString("nothing was changed: this was a dry run\n")
	_, err := io.WriteString(out, text.String())
	return err
}
