// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/admin/etcd/downgrade"
)

// etcdDowngrade has the flags of `tripod etcd downgrade`.
type etcdDowngrade struct {
	endpoints                 []string
	caFile, certFile, keyFile string
	to, format                string
	cancel                    bool
	timeout                   time.Duration
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
	fs.StringSliceVar(&o.endpoints, "endpoints", nil, "URLs of the members of etcd, comma separated")
	fs.StringVar(&o.caFile, "cacert", "", "CA of etcd")
	fs.StringVar(&o.certFile, "cert", "", "client certificate")
	fs.StringVar(&o.keyFile, "key", "", "key of the client certificate")
	fs.StringVar(&o.to, "to", "", "minor version to go back to, as in 3.6")
	fs.BoolVar(&o.cancel, "cancel", false, "stay with the present version after all")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait for etcd")
	fs.StringVarP(&o.format, "output", "o", formatText, "format of the output: text or json")
	return cmd
}

func (o *etcdDowngrade) run(ctx context.Context, out io.Writer, progress func(string)) error {
	if err := checkFormat(o.format, formatText); err != nil {
		return err
	}
	if len(o.endpoints) == 0 {
		return errors.New("no etcd: set --endpoints")
	}
	if (o.to == "") != o.cancel {
		return errors.New("set either --to, as in --to 3.6, or --cancel")
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	silenceGRPC()
	client, err := access.Connect(o.endpoints, o.caFile, o.certFile, o.keyFile)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is pending
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := access.Await(ctx, client); err != nil {
		return err
	}
	if o.cancel {
		return downgrade.Cancel(ctx, client)
	}
	members, err := downgrade.Enable(ctx, client, o.to, progress)
	if err != nil {
		return err
	}
	if o.format == formatJSON {
		return printJSON(out, members)
	}
	for _, member := range members {
		_, err := fmt.Fprintf(out, "%s is etcd %s and stores the form of %s\n", member.Name, member.Version, member.StorageVersion)
		if err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "Replace the servers by etcd %s now, one after the other.\n", o.to)
	return err
}
