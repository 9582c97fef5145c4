// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// etcdAccess has the flags of `tripod etcd access`.
type etcdAccess struct {
	access.Options
	etcdServers
	services, partitions []string
	commands, off        bool
}

func newEtcdAccessCommand() *cobra.Command {
	var o etcdAccess
	cmd := &cobra.Command{
		Use:   "access {--endpoints URLS | --commands}",
		Short: "Let each service reach only its own keys in etcd",
		Long: `Make a user and a role in etcd for each service, and turn authentication on. etcd must run with --client-cert-auth. Each service needs a
certificate with its user as the common name: tripod-core, tripod-extensions, tripod-aggregator. The certificate for this command needs the
common name root. You can run the command at any time. Run it before an upgrade to a version of Kubernetes that adds resources.`,
		Example: `  tripod etcd access --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert root.crt --key root.key
  tripod etcd access --commands                      # print commands of etcdctl that do the same`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	o.addFlags(fs)
	fs.StringVar(&o.Prefix, "etcd-prefix", "/registry", "--etcd-prefix of the services")
	fs.StringArrayVar(&o.partitions, "extensions-partition", nil,
		"partition of extensions and its API groups, as in big=example.com,example.org; its user is tripod-extensions-NAME; can be repeated. If "+
			"a group is of the form *.SUFFIX, etcd lets the partition and extensions reach all custom resources that no other partition names")
	fs.StringArrayVar(&o.services, "service", nil,
		"additional API service and the directories that it may use, as in wardle=/registry/wardle.example.com; "+
			"its user is tripod-NAME; can be repeated")
	fs.StringArrayVar(&o.Administrators, "admin", nil,
		"common name of another certificate that may do everything, such as kube-etcd-healthcheck-client of kubeadm; can be repeated")
	fs.StringVar(&o.Former, "former", "", "user of replicas from before, which keeps access to all keys when this run turns authentication on")
	fs.StringVar(&o.Remove, "remove", "", "user of --former, to remove when no replica uses it any more")
	fs.BoolVar(&o.commands, "commands", false,
		"print the commands of etcdctl that do the same in an etcd without users and roles, and do nothing else")
	fs.BoolVar(&o.off, "off", false, "turn authentication off")
	return cmd
}

func (o *etcdAccess) run(ctx context.Context, out io.Writer) error {
	for _, given := range o.services {
		service, err := access.ParseService(given)
		if err != nil {
			return fmt.Errorf("--service: %w", err)
		}
		o.Services = append(o.Services, service)
	}
	var err error
	if o.Partitions, err = partitions.Parse(o.partitions); err != nil {
		return fmt.Errorf("--extensions-partition: %w", err)
	}
	if o.commands {
		_, err := io.WriteString(out, access.Commands(o.Options))
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	return o.use(ctx, func(ctx context.Context, client *clientv3.Client) error {
		if o.off {
			return access.Disable(ctx, client)
		}
		o.Progress = func(line string) { fmt.Fprintln(out, line) }
		return access.Apply(ctx, client, o.Options)
	})
}
