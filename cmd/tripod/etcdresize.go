// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/tripod-k8s/tripod/admin/connect"
	"github.com/tripod-k8s/tripod/admin/etcd/resize"
)

func newEtcdResizeCommand() *cobra.Command {
	var where connection
	var o resize.Options
	var dryRun bool
	var format string
	cmd := &cobra.Command{
		Use:   "resize RELEASE --members {1 | 3 | 5}",
		Short: "Change the number of members of the etcds of a Helm release, while clients go on",
		Long: `Change the number of members of the etcds of a Helm release, one member at a time, while clients go on.

A new member copies all data before it gets a vote. In the end, the services restart one pod after the other, with all members. If members
go, the services restart first, without them. Then these members leave etcd, the last one first, and stop.
The command deletes their volumes, unless --keep-volumes is given. A new member cannot use a volume that was kept.

If the command is interrupted or fails, run it again: it continues. With another --members, it turns back. Until it has finished, helm
upgrade is refused. Afterwards, set the value etcd.replicas to the new number. Stop tools that apply the old number meanwhile (GitOps).

The command refuses to begin if a member is not healthy or has an alarm, during a rollout of etcd, and without volumes
(etcd.persistence.enabled). It has the API server try first, as a dry run, whether it may delete and create the StatefulSet.

You need the rights to get, list and patch Deployments, to list and patch CronJobs, to get, list, create, patch and delete StatefulSets, to
get, list, create and update ConfigMaps, to get Secrets, to get and list Pods, to create pods/portforward, to get and delete
PersistentVolumeClaims, and to get, create, update and delete Leases.`,
		Example: `  tripod etcd resize tripod --namespace tripod --members 3 --dry-run
  tripod etcd resize tripod --namespace tripod --members 3
  helm upgrade tripod deploy/helm/tripod --namespace tripod --reset-then-reuse-values --set etcd.replicas=3`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, formatText); err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			if err := reachEtcds(&where, &o); err != nil {
				return err
			}
			o.Release, o.Progress = args[0], progressTo(cmd.ErrOrStderr())
			if dryRun {
				plans, err := resize.DryRun(ctx, o)
				if err != nil {
					return err
				}
				if format == formatJSON {
					return printJSON(cmd.OutOrStdout(), plans)
				}
				return printResizePlans(cmd.OutOrStdout(), plans)
			}
			if err := resize.Resize(ctx, o); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Each etcd that was to be resized has %s. Now set etcd.replicas to %d by helm upgrade.\n",
				plural(o.Members, "member"), o.Members)
			return err
		},
	}
	addResizeFlags(cmd.Flags(), &where, &o)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check, show what would be done, and change nothing")
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format of what --dry-run shows: text or json")
	_ = cmd.MarkFlagRequired("members") // the flag is there
	return cmd
}

func addResizeFlags(fs *pflag.FlagSet, where *connection, o *resize.Options) {
	where.addHostFlags(fs)
	fs.StringVar(&o.Etcd, "etcd", "",
		"one etcd of the release: etcd, etcd-extensions, or etcd-extensions-PARTITION; by default all, which have the same number")
	fs.IntVar(&o.Members, "members", 0, "number of members that each etcd is to have: 1, 3 or 5")
	fs.BoolVar(&o.KeepVolumes, "keep-volumes", false, "keep the volumes of members that go")
}

// reachEtcds says how to reach the cluster and the pods of etcds in it.
func reachEtcds(where *connection, o *resize.Options) error {
	config, client, namespace, err := where.host()
	if err != nil {
		return err
	}
	silenceGRPC()
	utilruntime.ErrorHandlers = nil // errors of forwards are returned, or the next request has them
	o.Client, o.Namespace = client, namespace
	o.Dial = func(ctx context.Context, pod string, port int32) (net.Conn, error) {
		return connect.Dial(ctx, config, client, namespace, pod, port)
	}
	return nil
}

func printResizePlans(out io.Writer, plans []resize.Plan) error {
	var text strings.Builder
	for _, p := range plans {
		fmt.Fprintf(&text, "%s has %s", p.Etcd, plural(p.Members, "member"))
		if len(p.Steps) == 0 {
			text.WriteString(", and nothing is to be done")
		}
		text.WriteString("\n")
		for _, step := range p.Steps {
			fmt.Fprintln(&text, "  "+step)
		}
	}
	text.WriteString("nothing was changed: this was a dry run\n")
	_, err := io.WriteString(out, text.String())
	return err
}
