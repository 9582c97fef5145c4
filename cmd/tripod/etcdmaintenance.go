// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/admin/etcd/maintenance"
)

func newEtcdStatusCommand() *cobra.Command {
	var o etcdServers
	var format listFormat
	cmd := &cobra.Command{
		Use:   "status --endpoints URLS",
		Short: "Show the members of an etcd: versions, leader, sizes, lag and alarms",
		Long: `Show the members of an etcd. IN USE is what a defragmentation would leave of SIZE. LAG counts the log entries that a member has
yet to apply. The command fails if a member is not healthy, after it has shown all.

If etcd has users, the certificate for this command needs the common name root.`,
		Example: `  tripod etcd status --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert root.crt --key root.key
  tripod etcd status --endpoints http://127.0.0.1:2379 -o 'jsonpath={[?(@.leader)].name}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.try(cmd.Context(), func(ctx context.Context, client *clientv3.Client) error {
				members, err := maintenance.Status(ctx, client, progressTo(cmd.ErrOrStderr()))
				if err != nil {
					return err
				}
				name := func(m maintenance.Member) string { return m.Name }
				if err := printList(cmd.OutOrStdout(), format, members, name, printMembers); err != nil {
					return err
				}
				return maintenance.Problems(members)
			})
		},
	}
	o.addFlags(cmd.Flags())
	addListFormat(cmd, &format)
	return cmd
}

func printMembers(out io.Writer, members []maintenance.Member) error {
	table := newTable(out, "MEMBER", "ENDPOINT", "VERSION", "ROLE", "SIZE", "IN USE", "QUOTA", "LAG", "ALARMS", "HEALTHY")
	for _, m := range members {
		role, quota, alarms := "follower", "-", "-"
		switch {
		case m.Leader:
			role = "leader"
		case m.Learner:
			role = "learner"
		}
		if m.DBQuota > 0 {
			quota = mebibytes(m.DBQuota)
		}
		if len(m.Alarms) > 0 {
			alarms = strings.Join(m.Alarms, ",")
		}
		if m.Version == "" {
			row(table, orDash(m.Name), orDash(m.Endpoint), "-", "-", "-", "-", "-", "-", alarms, false)
			continue
		}
		size, inUse := mebibytes(m.DBSize), mebibytes(m.DBSizeInUse)
		row(table, orDash(m.Name), m.Endpoint, m.Version, role, size, inUse, quota, m.RaftLag, alarms, m.Problem == "")
	}
	return table.Flush()
}

func mebibytes(bytes int64) string {
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

func newEtcdDefragCommand() *cobra.Command {
	var o etcdServers
	var options maintenance.DefragOptions
	var format listFormat
	cmd := &cobra.Command{
		Use:   "defrag --endpoints URLS",
		Short: "Defragment the members of an etcd, one at a time, the leader last",
		Long: `Give the space that deleted and compacted objects have left in the databases of an etcd back to the file system. Members are
defragmented one at a time, the leader last. A member answers no requests meanwhile, which takes some seconds for each GiB in use;
clients use the others.

The command stops before the next member if one is not healthy, or if etcd has an alarm other than NOSPACE. If each member has a tenth
of its quota afterwards, it clears the alarm NOSPACE, and etcd accepts writes again. If the command is stopped, run it again.

If etcd has users, the certificate for this command needs the common name root.`,
		Example: `  tripod etcd defrag --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert root.crt --key root.key --dry-run
  tripod etcd defrag --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert root.crt --key root.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			options.Progress = progressTo(cmd.ErrOrStderr())
			return o.try(cmd.Context(), func(ctx context.Context, client *clientv3.Client) error {
				done, failed := maintenance.Defrag(ctx, client, options)
				if failed != nil && len(done) == 0 {
					return failed
				}
				name := func(d maintenance.Defragmented) string { return d.Name }
				if err := printList(cmd.OutOrStdout(), format, done, name, printDefragmented); err != nil && failed == nil {
					return err
				}
				return failed
			})
		},
	}
	o.addFlags(cmd.Flags())
	o.timeout = 30 * time.Minute
	timeout := cmd.Flags().Lookup("timeout")
	timeout.DefValue, timeout.Usage = o.timeout.String(), "how long all may take"
	cmd.Flags().DurationVar(&options.Recovery, "recovery-timeout", time.Minute, "how long a member may take to become healthy again")
	cmd.Flags().BoolVar(&options.DryRun, "dry-run", false, "check, show the order and the space to be gained, and change nothing")
	addListFormat(cmd, &format)
	return cmd
}

func printDefragmented(out io.Writer, done []maintenance.Defragmented) error {
	table := newTable(out, "MEMBER", "ENDPOINT", "LEADER", "BEFORE", "AFTER", "TOOK")
	for _, d := range done {
		took := "-"
		if d.Took > 0 {
			took = fmt.Sprintf("%.1fs", d.Took)
		}
		row(table, d.Name, d.Endpoint, d.Leader, mebibytes(d.Before), mebibytes(d.After), took)
	}
	return table.Flush()
}
