// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/instance"
)

func newUpCommand() *cobra.Command {
	o := instance.Options{BindAddress: net.IPv4(127, 0, 0, 1), Port: 6443, APIServiceForm: "service"}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start an instance on this machine and keep it running until Ctrl-C",
		Long: `Start an instance on this machine and keep it running until Ctrl-C: aggregator, core and extensions, and an etcd
unless all three have one already. Everything it needs and its data are in the data directory, so the next start
continues where this one ended.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			// Libraries log for servers; here the lines of the instance say what there is to say.
			klog.LogToStderr(false)
			klog.SetOutput(io.Discard)
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return instance.Run(ctx, o, cmd.OutOrStdout())
		},
	}
	addDataDirFlag(cmd, &o.DataDir)
	fs := cmd.Flags()
	fs.IntVar(&o.Port, "port", o.Port, "port for clients; 0 takes a free one")
	fs.IPVar(&o.BindAddress, "bind-address", o.BindAddress, "address for clients")
	fs.StringSliceVar(&o.EtcdServers, "etcd-servers", nil, "URLs of an etcd for all services, instead of the embedded one")
	fs.StringSliceVar(&o.CoreEtcdServers, "core-etcd-servers", nil, "URLs of an etcd for core")
	fs.StringSliceVar(&o.ExtensionsEtcdServers, "extensions-etcd-servers", nil, "URLs of an etcd for extensions")
	fs.StringSliceVar(&o.AggregatorEtcdServers, "aggregator-etcd-servers", nil, "URLs of an etcd for the aggregator")
	fs.StringVar(&o.EtcdCAFile, "etcd-cafile", "", "CA of the etcds that are not embedded")
	fs.StringVar(&o.EtcdCertFile, "etcd-certfile", "", "client certificate for the etcds that are not embedded")
	fs.StringVar(&o.EtcdKeyFile, "etcd-keyfile", "", "client key for the etcds that are not embedded")
	fs.StringVar(&o.APIServiceForm, "apiservice-form", o.APIServiceForm,
		"form of the APIServices of core and extensions: service, or local as in kube-apiserver")
	fs.StringArrayVar(&o.CoreArgs, "core-arg", nil, "further flag for core, as in --core-arg=--v=4; can be repeated")
	fs.StringArrayVar(&o.ExtensionsArgs, "extensions-arg", nil, "further flag for extensions; can be repeated")
	fs.StringArrayVar(&o.AggregatorArgs, "aggregator-arg", nil, "further flag for the aggregator; can be repeated")
	return cmd
}

// untilSignal returns a context that ends with the first signal to stop. A second signal ends the process at once.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(parent, signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
