// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/admin/etcd/downgrade"
)

// etcdDowngrade has the flags of `tripod etcd downgrade`.
type etcdDowngrade struct {
	etcdServers
	to, format string
	cancel     bool
}

func newEtcdDowngradeCommand() *cobra.Command {
	var o etcdDowngrade
	cmd := &cobra.Command{
		Use:   "downgrade --endpoints URLS {--to VERSION | --cancel}",
		Short: "Let the minor version before take over the data of an etcd",
		Long: `Have all members of a running etcd store their data in the form of the minor version before. Then replace the servers one after the other.
etcd and all services go on meanwhile. Without this, an older server refuses the data and says that its version is not supported.

If etcd has users, the certificate for this command needs the common name root.`,
		Example: `  tripod etcd downgrade --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert root.crt --key root.key --to 3.6
  tripod etcd downgrade --endpoints http://127.0.0.1:2379 --cancel`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), progressTo(cmd.ErrOrStderr()))
		},
	}
	fs := cmd.Flags()
	o.addFlags(fs)
	fs.StringVar(&o.to, "to", "", "minor version to go back to, as in 3.6")
	fs.BoolVar(&o.cancel, "cancel", false, "stay with the present version after all")
	fs.StringVarP(&o.format, "output", "o", formatText, "format of the output: text or json")
	return cmd
}

func (o *etcdDowngrade) run(ctx context.Context, out io.Writer, progress func(string)) error {
	if err := checkFormat(o.format, formatText); err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	if (o.to == "") != o.cancel {
		return errors.New("set either --to, as in --to 3.6, or --cancel")
	}
	return o.use(ctx, func(ctx context.Context, client *clientv3.Client) error {
		if o.cancel {
			cancelled, err := downgrade.Cancel(ctx, client)
			switch {
			case err != nil:
			case cancelled:
				progress("etcd stays with its version: the downgrade is cancelled")
			default:
				progress("No downgrade is allowed: nothing to cancel")
			}
			return err
		}
		members, err := downgrade.Enable(ctx, client, o.to, progress)
		if err != nil {
			return err
		}
		return o.print(out, members)
	})
}

func (o *etcdDowngrade) print(out io.Writer, members []downgrade.Member) error {
	if o.format == formatJSON {
		return printJSON(out, members)
	}
	for _, member := range members {
		_, err := fmt.Fprintf(out, "%s is etcd %s and stores the form of %s\n", member.Name, member.Version, member.StorageVersion)
		if err != nil {
			return err
		}
	}
	if downgrade.Finished(members, o.to) {
		_, err := fmt.Fprintf(out, "All servers are of etcd %s already: nothing to replace.\n", o.to)
		return err
	}
	_, err := fmt.Fprintf(out, "Replace the servers by etcd %s now, one after the other.\n", o.to)
	return err
}
