// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net"
	"os"

	"github.com/spf13/cobra"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/storage/etcdready"
)

// Flagged are the options of one service, with Options or BackendOptions embedded.
type Flagged[Completed any] interface {
	// Flags returns the flags by section.
	Flags() *cliflag.NamedFlagSets
	// Validate returns every problem of the flags, and changes nothing.
	Validate() []error
	// Complete derives options from valid flags, and returns them all.
	Complete(context.Context) (Completed, error)

	// Common returns the options that every service has.
	Common() *Options
	// Listen opens the ports of the service besides --secure-port.
	Listen() (*Ports, error)
}

// Server is a service with all its parts, before it serves.
type Server interface {
	// Run serves until the context ends, and then shuts down as kube-apiserver does.
	Run(context.Context, *Ports) error
}

// Main is the main function of a service. long is the description in its help text. It returns the exit code of the process.
func Main[Completed, Config any, S Server](
	long string, o Flagged[Completed],
	newConfig func(context.Context, Completed) (Config, error), newServer func(Config) (S, error),
) int {
	return Execute(genericapiserver.SetupSignalContext(), commandOf(long, o, newConfig, newServer), os.Stderr)
}

// Run runs a service with the arguments of a command line until the context ends.
func Run[Completed, Config any, S Server](
	ctx context.Context, args []string, long string, o Flagged[Completed],
	newConfig func(context.Context, Completed) (Config, error), newServer func(Config) (S, error),
) error {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged // a test runs one service after the other
	cmd := commandOf(long, o, newConfig, newServer)
	cmd.SilenceErrors = true
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

func commandOf[Completed, Config any, S Server](
	long string, o Flagged[Completed],
	newConfig func(context.Context, Completed) (Config, error), newServer func(Config) (S, error),
) *cobra.Command {
	return NewCommand(Command{
		Name:       o.Common().Program,
		Long:       long,
		Flags:      o.Flags(),
		Logs:       o.Common().Logs,
		Components: o.Common().ServerRun.ComponentGlobalsRegistry,
		Run:        func(ctx context.Context) error { return run(ctx, o, newConfig, newServer) },
	})
}

// run is the life of a service.
func run[Completed, Config any, S Server](
	ctx context.Context, o Flagged[Completed],
	newConfig func(context.Context, Completed) (Config, error), newServer func(Config) (S, error),
) error {
	if err := utilerrors.NewAggregate(o.Validate()); err != nil {
		return err
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return err
	}
	klog.InfoS("Starting "+o.Common().Name, "version", Version, "kubernetes", version.Get().GitVersion)
	ports, err := o.Listen()
	if err != nil {
		return err
	}
	if err := o.Common().awaitEtcd(ctx); err != nil {
		return err
	}
	config, err := newConfig(ctx, completed)
	if err != nil {
		return err
	}
	server, err := newServer(config)
	if err != nil {
		return err
	}
	return server.Run(ctx, ports)
}

// Ports are where a service serves besides --secure-port. The service opens them before it waits for anything, so that a busy port is an
// error at once.
type Ports struct {
	// Probes answers probes from the start. It is nil without --probe-bind-address.
	Probes *Probes
	// GRPC is nil if the service serves no other services.
	GRPC net.Listener
}

// Common implements Flagged.
func (o *Options) Common() *Options { return o }

// Listen implements Flagged.
func (o *Options) Listen() (*Ports, error) {
	waitsFor := "etcd"
	if o.Etcd == nil {
		waitsFor = "start"
	}
	probes, err := startProbes(&o.Probes, waitsFor)
	return &Ports{Probes: probes}, err
}

// Listen implements Flagged.
func (o *BackendOptions) Listen() (*Ports, error) {
	ports, err := o.Options.Listen()
	if err != nil {
		return nil, err
	}
	ports.GRPC, err = o.GRPC.Listen()
	return ports, err
}

// awaitEtcd returns when etcd answers. Behind an egress proxy, storage waits for etcd itself, as in kube-apiserver.
func (o *Options) awaitEtcd(ctx context.Context) error {
	if o.Etcd == nil {
		return nil
	}
	if behind, err := EtcdBehindProxy(o.EgressSelector.ConfigFile); err != nil || behind {
		return err
	}
	return etcdready.Wait(ctx, o.Etcd.StorageConfig, o.SecureServing.SecureServingOptions)
}
