// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot"
	"github.com/tripod-k8s/tripod/local/etcd/embedded"
)

// revisionsBetween is more than most clusters write between taking a snapshot and restoring it.
const revisionsBetween = 1_000_000_000

func newEtcdCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Back up, restore, look after and downgrade an etcd, and limit who reaches what in it",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEtcdSnapshotCommand(), newEtcdRestoreCommand(), newEtcdStatusCommand(), newEtcdDefragCommand(),
		newEtcdAccessCommand(), newEtcdCheckGroupsCommand(),
		newEtcdDowngradeCommand(), newEtcdRunCommand())
	return cmd
}

// newEtcdRunCommand returns the command that `tripod up` runs for its etcd.
func newEtcdRunCommand() *cobra.Command {
	var o embedded.Options
	cmd := &cobra.Command{
		Use:    "run",
		Short:  "Run an etcd of one member",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return embedded.Run(ctx, o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.DataDir, "data-dir", "default.etcd", "directory of the data")
	fs.StringVar(&o.ClientURL, "client-url", "http://127.0.0.1:2379", "URL to serve clients at")
	fs.StringVar(&o.CertFile, "cert-file", "", "certificate of the server")
	fs.StringVar(&o.KeyFile, "key-file", "", "key of the server")
	fs.StringVar(&o.TrustedCAFile, "trusted-ca-file", "", "CA of the clients")
	fs.StringVar(&o.LogLevel, "log-level", "warn", "debug, info, warn, error")
	return cmd
}

func newEtcdSnapshotCommand() *cobra.Command {
	var o snapshot.SaveOptions
	var format string
	cmd := &cobra.Command{
		Use:   "snapshot --endpoints URL {FILE | --directory DIR}",
		Short: "Save a snapshot of an etcd to a file",
		Long: `Save the data of a running etcd to a file, in the format of "etcdctl snapshot save". The file appears only when it is
complete and its hash is correct.`,
		Example: `  tripod etcd snapshot --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert client.crt --key client.key backup.db
  tripod etcd snapshot --endpoints http://127.0.0.1:2379 --directory /backups --keep 7`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, formatText); err != nil {
				return err
			}
			if len(args) > 0 {
				o.File = args[0]
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			silenceGRPC()
			o.Progress = progressTo(cmd.ErrOrStderr())
			saved, err := snapshot.Save(ctx, o)
			if err != nil {
				return err
			}
			if format == formatJSON {
				return printJSON(cmd.OutOrStdout(), saved)
			}
			return printSaved(cmd.OutOrStdout(), saved)
		},
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&o.Endpoints, "endpoints", nil, "URLs of members of the etcd; the first that answers gives the snapshot")
	fs.StringVar(&o.CAFile, "cacert", "", "CA of the etcd's certificates")
	fs.StringVar(&o.CertFile, "cert", "", "client certificate")
	fs.StringVar(&o.KeyFile, "key", "", "key of the client certificate")
	fs.StringVar(&o.Directory, "directory", "", "directory for the snapshot, which is then called NAME-TIME.db")
	fs.StringVar(&o.Name, "name", "etcd", "name of snapshots in the directory")
	fs.IntVar(&o.Keep, "keep", 0, "number of snapshots of this name to keep in the directory, the newest ones; 0 keeps all")
	fs.StringVarP(&format, "output", "o", formatText, "format of the output: text or json")
	return cmd
}

func printSaved(out io.Writer, saved *snapshot.Saved) error {
	for _, file := range saved.Removed {
		if _, err := fmt.Fprintf(out, "%s removed\n", file); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%s saved: %.1f MiB, revision %d, SHA-256 %s\n",
		saved.File, float64(saved.Bytes)/(1<<20), saved.Revision, saved.SHA256)
	return err
}

func newEtcdRestoreCommand() *cobra.Command {
	var o snapshot.RestoreOptions
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore FILE --data-dir DIR",
		Short: "Restore a snapshot as a member of a new etcd",
		Long: `Make the data directory of a member of a new etcd from a snapshot. Without further flags it fits the etcd of "tripod up".
For an etcd of several members, restore each from the same file, with the flags that you start it with.

First stop etcd and all services, and move the old data directory away. The new etcd continues at the revision of the
snapshot plus --bump-revision. Clients see the revision as resourceVersion. Those that watch list again.`,
		Example: `  tripod etcd restore backup.db --data-dir ~/.tripod/etcd
  tripod etcd restore backup.db --data-dir /var/lib/etcd/data --name etcd-0 \
    --initial-advertise-peer-urls https://etcd-0.etcd:2380 --initial-cluster etcd-0=https://etcd-0.etcd:2380,etcd-1=https://etcd-1.etcd:2380`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.File = args[0]
			said, err := restore(o, replace)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.DataDir, "data-dir", "", "data directory to make")
	fs.StringVar(&o.Name, "name", embedded.MemberName, "name of the member")
	fs.StringSliceVar(&o.InitialAdvertisePeerURLs, "initial-advertise-peer-urls", []string{embedded.PeerURL},
		"URLs of the member for other members")
	fs.StringVar(&o.InitialCluster, "initial-cluster", "", "NAME=URL of all members; by default this member alone")
	fs.StringVar(&o.InitialClusterToken, "initial-cluster-token", "etcd-cluster", "name of the new etcd")
	fs.Uint64Var(&o.BumpRevision, "bump-revision", revisionsBetween,
		"number to add to the revision: more than etcd has written since the snapshot, or 0 for an etcd that is new")
	fs.BoolVar(&replace, "replace", false,
		"rename a data directory that exists; do nothing if a run with --replace made it from a snapshot of this name")
	fs.BoolVar(&o.SkipHashCheck, "skip-hash-check", false, "accept a file without a hash: the database of a member (member/snap/db)")
	if err := cmd.MarkFlagRequired("data-dir"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

// restore returns what to tell the user.
func restore(o snapshot.RestoreOptions, replace bool) (string, error) {
	restored := fmt.Sprintf("%s restored as %s in %s", o.File, o.Name, o.DataDir)
	if !replace {
		return restored, snapshot.Restore(o)
	}
	made, kept, err := snapshot.Replace(o)
	switch {
	case err != nil:
		return "", err
	case !made:
		return fmt.Sprintf("%s is of %s already", o.DataDir, o.File), nil
	case kept != "":
		restored += "; what was there is in " + kept
	}
	return restored, nil
}
