// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/admin/crd"
	"github.com/tripod-k8s/tripod/admin/etcd/split"
	"github.com/tripod-k8s/tripod/local/up"
)

func newMigrateCRDCommand() *cobra.Command {
	var kubeconfig, server string
	var format listFormat
	o := crd.MoveOptions{Etcd: split.Etcd{Flag: "extensions-etcd"}}
	cmd := &cobra.Command{
		Use:   "crd GROUP (--to SERVICE | --back) --extensions-etcd URL",
		Short: "Move the custom resources of an API group to an API service, or back",
		Long: `Move the custom resources of an API group from extensions to an API service that serves the same group, or back with --back.
Objects keep their UIDs, managed fields, finalizers, status and generations. Clients go on meanwhile.

The command copies while clients write. Then writes pause, with 503 and Retry-After, until it has copied what has changed,
compared the hashes of both, and has led clients to the other server. Reads and watches go on. Clients that watch list again,
once. The CustomResourceDefinitions stay, for the way back.

If the command dies, the group is where it was, or where it should go. Run it again: it goes on, or ends what is left. Until
then clients may be unable to write. With --to, it can also end a move back that has not switched.

If the service is gone for good, --back --abandon gives up its objects: extensions has those from before the move.

First run tripod migrate check-crd. You need rights to list the objects, for the nonResourceURLs /migration/GROUP and
/migration/GROUP/* with the verbs get, post and put, and to update APIServices, and the certificate of the user root of etcd.

The instance is the one in $` + up.DataDirVariable + ` or ` + up.DefaultDataDirHelp + ` unless $KUBECONFIG or --kubeconfig names another.`,
		Example: `  tripod migrate crd library.example.com --to books --extensions-etcd https://10.0.0.1:2379 \
    --extensions-etcd-cafile ca.crt --extensions-etcd-certfile root.crt --extensions-etcd-keyfile root.key`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Config, err = checkedConfig(kubeconfig, server); err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			silenceGRPC()
			o.Group, o.Progress = args[0], progressTo(cmd.ErrOrStderr())
			report, err := crd.Move(ctx, o)
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
			table := func(out io.Writer, report *crd.MoveReport) error { return printMovedCRDs(out, report, o.DryRun) }
			return printValue(cmd.OutOrStdout(), format, report, names, table)
		},
	}
	addMoveFlags(cmd, &o)
	fs := cmd.Flags()
	fs.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	addKubeconfigName(cmd, &kubeconfig)
	fs.StringVar(&server, "server", "", "URL of the API, instead of the one in the kubeconfig")
	addReportFormat(cmd, &format)
	return cmd
}

// addMoveFlags adds the flags that say where the group goes, and how.
func addMoveFlags(cmd *cobra.Command, o *crd.MoveOptions) {
	fs := cmd.Flags()
	fs.StringVar(&o.Service, "to", "", "name of the API service that gets the group")
	fs.Bool("back", false, "move the group back to extensions")
	fs.BoolVar(&o.Abandon, "abandon", false,
		"with --back, give up the objects of a service that is gone for good: extensions has those from before the move")
	cmd.MarkFlagsOneRequired("to", "back")
	cmd.MarkFlagsMutuallyExclusive("to", "back")
	cmd.MarkFlagsMutuallyExclusive("to", "abandon")
	addEtcdFlags(cmd, &o.Etcd, "the etcd that has CustomResourceDefinitions, --etcd-servers of extensions")
	fs.StringVar(&o.Prefix, "etcd-prefix", "/registry", "prefix of all keys, as extensions has it")
	fs.BoolVar(&o.DryRun, "dry-run", false, "only say what would move, and estimate how long that takes")
	addMaxPause(fs, &o.MaxPause)
	// For tests of moves that die.
	fs.DurationVar(&o.PauseTTL, "pause-ttl", split.PauseTTL, "how long writes stay paused after the command has died")
	if err := fs.MarkHidden("pause-ttl"); err != nil {
		panic(err) // there is no such flag
	}
}

func printMovedCRDs(out io.Writer, report *crd.MoveReport, estimated bool) error {
	table := newTable(out, "RESOURCE", "OBJECTS", "KIB", "SHA-256")
	for _, r := range report.Resources {
		row(table, r.Name, r.Objects, r.Bytes>>10, r.Checksum)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	what := "is in " + report.To
	switch {
	case estimated:
		what = fmt.Sprintf("would move to %s in %.1f s, with a pause of writes of %.1f s, by an estimate",
			report.To, report.Seconds, report.PausedSeconds)
	case report.Moved:
		what = fmt.Sprintf("has moved to %s in %.1f s, with a pause of writes of %.1f s", report.To, report.Seconds, report.PausedSeconds)
	}
	_, err := fmt.Fprintf(out, "\n%s %s\n", report.Group, what)
	return err
}
