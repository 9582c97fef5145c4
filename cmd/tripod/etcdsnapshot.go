// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot"
	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
	"github.com/tripod-k8s/tripod/local/etcd/embedded"
)

// revisionsBetween is more than most clusters write between taking a snapshot and restoring it.
const revisionsBetween = 1_000_000_000

// aboutBuckets is the help about s3:// for all commands.
const aboutBuckets = `
A location s3://BUCKET/KEY is in a bucket of Amazon S3 or of an S3-compatible server. The credentials come from AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, from the file AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, or from the role that a cloud gives the machine
or pod. No flag takes them.`

func addBucketFlags(fs *pflag.FlagSet, s *bucket.Server) {
	fs.StringVar(&s.Endpoint, "s3-endpoint", "", "URL of the S3 server; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon S3")
	fs.StringVar(&s.Region, "s3-region", "", "region of the bucket; by default AWS_REGION")
	fs.StringVar(&s.CAFile, "s3-cacert", "", "CA of the S3 server's certificate; by default AWS_CA_BUNDLE, or the CAs of the system")
}

func newEtcdSnapshotCommand() *cobra.Command {
	var o snapshot.SaveOptions
	var format string
	cmd := &cobra.Command{
		Use:   "snapshot --endpoints URL {FILE | --directory DIR}",
		Short: "Save a snapshot of an etcd to a file or a bucket",
		Long: `Save the data of a running etcd to a file, in the format of "etcdctl snapshot save". The file appears only when it is
complete and its hash is correct. An object in a bucket is read back, and stays only if its hash is correct.

An upload that is interrupted leaves nothing, and the next one begins anew. With --resume-dir, the snapshot stays in that directory until it
is in the bucket. If you run the same command again within six hours, it sends the parts that are missing. A later one removes the parts,
and saves a new snapshot.
` + aboutBuckets,
		Example: `  tripod etcd snapshot --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert client.crt --key client.key backup.db
  tripod etcd snapshot --endpoints http://127.0.0.1:2379 --directory /backups --keep 7
  tripod etcd snapshot --endpoints http://127.0.0.1:2379 --directory s3://backups/production --keep 7 --s3-endpoint https://s3.example.com`,
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
	fs.StringVar(&o.Directory, "directory", "", "directory, or s3://BUCKET/PREFIX, for the snapshot, which is then called NAME-TIME.db")
	fs.StringVar(&o.Name, "name", "etcd", "name of snapshots in the directory")
	fs.IntVar(&o.Keep, "keep", 0, "number of snapshots of this name to keep in the directory, the newest ones; 0 keeps all")
	fs.StringVar(&o.ResumeDir, "resume-dir", "",
		"directory of this machine that keeps a snapshot until it is in the bucket, so that the same command continues an upload")
	fs.StringVarP(&format, "output", "o", formatText, "format of the output: text or json")
	addBucketFlags(fs, &o.Server)
	cmd.AddCommand(newEtcdSnapshotListCommand())
	return cmd
}

func printSaved(out io.Writer, saved *snapshot.Saved) error {
	for _, file := range saved.Removed {
		if _, err := fmt.Fprintf(out, "%s removed\n", file); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%s saved: %s, revision %d, SHA-256 %s\n", saved.File, mebibytes(saved.Bytes), saved.Revision, saved.SHA256)
	return err
}

func newEtcdSnapshotListCommand() *cobra.Command {
	var o snapshot.ListOptions
	var format listFormat
	cmd := &cobra.Command{
		Use:   "list {DIR | s3://BUCKET/PREFIX}",
		Short: "List the snapshots in a directory or a bucket",
		Long:  "List the snapshots in a directory or a bucket, those of one name by time.\n" + aboutBuckets,
		Example: `  tripod etcd snapshot list s3://backups/production --s3-endpoint https://s3.example.com
  tripod etcd snapshot list /backups --name etcd -o name`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Directory = args[0]
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			files, err := snapshot.List(ctx, o)
			if err != nil {
				return err
			}
			return printList(cmd.OutOrStdout(), format, files, func(f snapshot.File) string { return f.File }, printSnapshots)
		},
	}
	cmd.Flags().StringVar(&o.Name, "name", "", "list only snapshots of this name, as in etcd for etcd-TIME.db")
	addBucketFlags(cmd.Flags(), &o.Server)
	addListFormat(cmd, &format)
	return cmd
}

func printSnapshots(out io.Writer, files []snapshot.File) error {
	table := newTable(out, "SNAPSHOT", "SAVED", "SIZE")
	for _, f := range files {
		row(table, f.File, f.Time.Format(time.RFC3339), mebibytes(f.Bytes))
	}
	return table.Flush()
}

func newEtcdRestoreCommand() *cobra.Command {
	var o snapshot.RestoreOptions
	var replace, dryRun bool
	var format string
	cmd := &cobra.Command{
		Use:   "restore {FILE | s3://BUCKET/KEY} --data-dir DIR",
		Short: "Restore a snapshot as a member of a new etcd",
		Long: `Make the data directory of a member of a new etcd from a snapshot. Without more flags it fits the etcd of "tripod up".
For an etcd of several members, restore each from the same file, with the flags that you start it with.

First stop etcd and all services, and move the old data directory away, or let --replace rename it. The new etcd continues at the
revision of the snapshot plus --bump-revision. Clients see the revision as resourceVersion. Those that watch list again.

--dry-run makes the same checks, shows what is there and what would replace it, and changes nothing.
` + aboutBuckets,
		Example: `  tripod etcd restore backup.db --data-dir ~/.tripod/etcd
  tripod etcd restore s3://backups/production/etcd-20261121T060500Z.db --data-dir ~/.tripod/etcd --replace --dry-run
  tripod etcd restore backup.db --data-dir /var/lib/etcd/data --name etcd-0 \
    --initial-advertise-peer-urls https://etcd-0.etcd:2380 --initial-cluster etcd-0=https://etcd-0.etcd:2380,etcd-1=https://etcd-1.etcd:2380`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, formatText); err != nil {
				return err
			}
			o.File = args[0]
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			if dryRun {
				plan, err := snapshot.PlanRestore(ctx, o, replace)
				if err != nil {
					return err
				}
				if format == formatJSON {
					return printJSON(cmd.OutOrStdout(), plan)
				}
				return printPlan(cmd.OutOrStdout(), plan)
			}
			done, err := restore(ctx, o, replace)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), done)
			return err
		},
	}
	addRestoreFlags(cmd.Flags(), &o)
	fs := cmd.Flags()
	fs.BoolVar(&replace, "replace", false,
		"rename a data directory that exists; do nothing if a run with --replace made it from a snapshot of this name (--restore-name)")
	fs.BoolVar(&dryRun, "dry-run", false, "check, show what would be done, and change nothing")
	fs.StringVarP(&format, "output", "o", formatText, "format of what --dry-run shows: text or json")
	if err := cmd.MarkFlagRequired("data-dir"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

func addRestoreFlags(fs *pflag.FlagSet, o *snapshot.RestoreOptions) {
	fs.StringVar(&o.DataDir, "data-dir", "", "data directory to make")
	fs.StringVar(&o.Name, "name", embedded.MemberName, "name of the member")
	fs.StringSliceVar(&o.InitialAdvertisePeerURLs, "initial-advertise-peer-urls", []string{embedded.PeerURL},
		"URLs of the member for other members")
	fs.StringVar(&o.InitialCluster, "initial-cluster", "", "NAME=URL of all members; by default this member alone")
	fs.StringVar(&o.InitialClusterToken, "initial-cluster-token", "etcd-cluster", "name of the new etcd")
	fs.Uint64Var(&o.BumpRevision, "bump-revision", revisionsBetween,
		"number to add to the revision: more than etcd has written since the snapshot, or 0 for an etcd that is new")
	fs.BoolVar(&o.SkipHashCheck, "skip-hash-check", false, "accept a file without a hash: the database of a member (member/snap/db)")
	fs.StringVar(&o.SHA256, "sha256", "", "SHA-256 that the snapshot must have, as snapshot and --dry-run print it; by default any")
	fs.StringVar(&o.RestoreName, "restore-name", "", "name by which --replace knows what it has made; by default that of the snapshot")
	fs.BoolVar(&o.OtherCluster, "other-cluster", false, "replace data also if the snapshot, from a bucket, is of another etcd")
	addBucketFlags(fs, &o.Server)
}
