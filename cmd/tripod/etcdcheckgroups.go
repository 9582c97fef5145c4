// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/admin/etcd/groupcheck"
)

func newEtcdCheckGroupsCommand() *cobra.Command {
	var o etcdServers
	var prefix string
	var servers, caFiles, certFiles, keyFiles, stopped []string
	cmd := &cobra.Command{
		Use:   "check-groups --endpoints URLS",
		Short: "Check that a planned configuration of partitions leaves no API group without its objects",
		Long: `Check before an upgrade that each API group has the etcd with its objects afterwards. A group that tripod migrate groups has moved
to the etcd of its partition needs a partition with this etcd. The command changes nothing. The Helm chart runs it before an upgrade.

--endpoints is the etcd that has CustomResourceDefinitions. The other flags are those that replicas of extensions are to have.`,
		Example: `  tripod etcd check-groups --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert root.crt --key root.key \
    --group-etcd-servers '*.example.org=https://10.0.0.2:2379' --group-etcd-cafile '*.example.org=ca2.crt' \
    --group-etcd-certfile '*.example.org=root2.crt' --group-etcd-keyfile '*.example.org=root2.key'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			planned, err := groupcheck.Parse(servers, caFiles, certFiles, keyFiles, stopped)
			if err != nil {
				return fmt.Errorf("--group-etcd-...: %w", err)
			}
			return o.use(cmd.Context(), func(ctx context.Context, client *clientv3.Client) error {
				if err := groupcheck.Check(ctx, client, prefix, planned); err != nil {
					return err
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "each API group has the etcd with its objects")
				return err
			})
		},
	}
	fs := cmd.Flags()
	o.addFlags(fs)
	fs.StringVar(&prefix, "etcd-prefix", "/registry", "--etcd-prefix of the services")
	fs.StringArrayVar(&servers, "group-etcd-servers", nil,
		"etcd that an API group is to have of its own (GROUP=URL[,URL...]); GROUP may be *.SUFFIX; can be repeated")
	fs.StringArrayVar(&caFiles, "group-etcd-cafile", nil, "CA of its certificate (GROUP=FILE); can be repeated")
	fs.StringArrayVar(&certFiles, "group-etcd-certfile", nil, "client certificate for it (GROUP=FILE); can be repeated")
	fs.StringArrayVar(&keyFiles, "group-etcd-keyfile", nil, "key of the client certificate (GROUP=FILE); can be repeated")
	fs.StringArrayVar(&stopped, "group-etcd-stopped", nil,
		"GROUP whose etcd does not run at the moment, and is not asked whether it is the right one; can be repeated")
	return cmd
}
