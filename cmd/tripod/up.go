// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/local/up"
	"github.com/tripod-k8s/tripod/services/list"
)

func newUpCommand() *cobra.Command {
	o := up.DefaultOptions()
	var detach, merge, withConsole bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start an instance on this machine, and keep it running until Ctrl-C or `tripod down`",
		Long: `Start an instance on this machine and keep it running until Ctrl-C: aggregator, core and extensions, and an etcd
unless the flags name one for all three. The data directory holds all data, certificates and logs, so the next start
continues where this one ended.

--detach returns when the instance is ready. ` + "`tripod down`" + ` stops it, ` + "`tripod logs`" + ` shows its logs. Each --name is an instance
of its own, and needs a --port of its own:

  tripod up -d
  tripod up -d --name other --port 7443

--controllers adds kube-controller-manager and kube-scheduler, and --kwok-nodes nodes on which pods run without containers:

  tripod up --kwok-nodes 3

--service adds an API service of your own. It starts with one replica. Nothing waits for it.

Each service can have several replicas, and ` + "`tripod scale`" + ` changes their number. All replicas of a service get the
same flags from --core-arg and the like. In a flag, {replica} stands for the name of the replica, so that each gets a value of its own:

  tripod up --core-replicas 2 --core-arg=--audit-log-path=/tmp/audit-{replica}.log --core-arg=--audit-policy-file=policy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(o.Validate(), mayHaveConsole(withConsole, &o)); err != nil {
				return err
			}
			// Libraries log for servers. Here the instance itself says what happens.
			klog.LogToStderr(false)
			klog.SetOutput(io.Discard)
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			if o.Detached = up.Detached(); detach && o.Detached == nil {
				program, err := os.Executable()
				if err != nil {
					return err
				}
				return up.Detach(ctx, up.DataDir(o.DataDir), append([]string{program}, os.Args[1:]...), cmd.OutOrStdout())
			}
			beside := &consoleBeside{out: cmd.OutOrStdout()}
			o.Ready = whenReady(ctx, up.DataDir(o.DataDir), merge, withConsole, beside)
			err := up.Run(ctx, o, cmd.OutOrStdout())
			stop()
			return errors.Join(err, beside.wait())
		},
	}
	addDataDirFlag(cmd, &o.DataDir)
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "run in the background, and return when the instance is ready")
	cmd.Flags().BoolVar(&merge, "merge-kubeconfig", false,
		"also add a context to your own kubeconfig ($KUBECONFIG or ~/.kube/config), and make it the current one; `tripod delete` removes it")
	cmd.Flags().BoolVar(&withConsole, "console", false,
		"also serve the console of --search at a free port of 127.0.0.1, and print its address")
	addUpFlags(cmd.Flags(), &o)
	return cmd
}

func mayHaveConsole(wanted bool, o *up.Options) error {
	if wanted && !o.Optional[list.Search] {
		return errors.New("--console shows what search has copied: add --search")
	}
	return nil
}

// whenReady returns what is done when the instance is ready.
func whenReady(ctx context.Context, dataDir up.DataDir, merge, withConsole bool, beside *consoleBeside) func() (string, error) {
	if !merge && !withConsole {
		return nil
	}
	return func() (string, error) {
		var lines []string
		add := func(line string, err error) {
			if err != nil {
				line = err.Error()
			}
			lines = append(lines, line)
		}
		if merge {
			add(mergeKubeconfig(dataDir))
		}
		if withConsole {
			add(beside.start(ctx, dataDir))
		}
		return strings.Join(lines, "; "), nil
	}
}

func mergeKubeconfig(dataDir up.DataDir) (string, error) {
	path, err := up.Merge(dataDir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s has the context %s, and uses it", path, dataDir.Context()), nil
}

func addUpFlags(fs *pflag.FlagSet, o *up.Options) {
	fs.IntVar(&o.Port, "port", o.Port, "port for clients; 0 means a free one")
	fs.IPVar(&o.BindAddress, "bind-address", o.BindAddress, "address for clients")
	fs.IntVar(&o.CoreReplicas, "core-replicas", o.CoreReplicas, "number of replicas of core to start with")
	fs.IntVar(&o.ExtensionsReplicas, "extensions-replicas", o.ExtensionsReplicas, "number of replicas of extensions to start with")
	fs.IntVar(&o.AggregatorReplicas, "aggregator-replicas", o.AggregatorReplicas,
		"number of replicas of the aggregator to start with; the first serves at --port, the next one at the port after it, and so on")
	fs.StringArrayVar(&o.Partitions, "extensions-partition", nil,
		"partition of extensions with processes of its own, as in --extensions-partition=big='*.example.com,example.org': its name, and its API "+
			"groups; can be repeated")
	fs.StringArrayVar(&o.Services, "service", nil,
		"additional API service, as in --service=wardle=./wardle: its name, and the program to run; can be repeated")
	fs.StringArrayVar(&o.ServiceArgs, "service-arg", nil,
		"additional flag for each replica of a --service, or of an optional service, as in --service-arg=wardle=--v=4; can be repeated")
	fs.BoolVar(&o.Controllers, "controllers", false,
		"also run kube-controller-manager and kube-scheduler (tripod-controllers, beside tripod), so that a Deployment gets its pods")
	fs.IntVar(&o.KwokNodes, "kwok-nodes", 0,
		"also run kwok, beside tripod or in the PATH, with so many nodes on which pods run without containers; implies --controllers")
	for _, service := range list.All() {
		if service.Optional {
			fs.Var(&optionalFlag{o.Optional, service.Name}, service.Name, fmt.Sprintf("also run %s, which %s", service.Name, service.Does))
			fs.Lookup(service.Name).NoOptDefVal = "true"
		}
	}
	fs.StringVar(&o.SearchDatabase, "search-database", "",
		"database of --search, as in postgres://USER:PASSWORD@HOST/DATABASE; by default search.db in the data directory, with SQLite")
	fs.StringVar(&o.SearchDatabaseFile, "search-database-file", "",
		"file with the value of --search-database, which keeps a password out of the list of processes")
	fs.BoolVar(&o.LoadBalancer, "lb", false,
		"serve at --port with a small balancer that spreads TCP connections over the aggregators, which then have ports of their own on loopback")
	fs.StringSliceVar(&o.EtcdServers, "etcd-servers", nil, "URLs of an etcd for all services, instead of the embedded one")
	fs.StringSliceVar(&o.CoreEtcdServers, "core-etcd-servers", nil, "URLs of an etcd for core")
	fs.StringSliceVar(&o.ExtensionsEtcdServers, "extensions-etcd-servers", nil, "URLs of an etcd for extensions")
	fs.StringArrayVar(&o.PartitionEtcdServers, "extensions-partition-etcd-servers", nil,
		"etcd for the custom resources of an --extensions-partition, as in --extensions-partition-etcd-servers=big=http://127.0.0.1:3379: its "+
			"name, and URLs; can be repeated")
	fs.StringSliceVar(&o.AggregatorEtcdServers, "aggregator-etcd-servers", nil, "URLs of an etcd for the aggregator")
	fs.StringVar(&o.EtcdCAFile, "etcd-cafile", "", "CA of the etcds that are not embedded")
	fs.StringVar(&o.EtcdCertFile, "etcd-certfile", "", "client certificate for the etcds that are not embedded")
	fs.StringVar(&o.EtcdKeyFile, "etcd-keyfile", "", "client key for the etcds that are not embedded")
	fs.StringVar(&o.APIServiceForm, "apiservice-form", o.APIServiceForm,
		"form of the APIServices of core and extensions: service, or local as in kube-apiserver")
	o.Shared = map[string][]string{}
	for _, name := range up.SharedFlags {
		fs.Var(&sharedFlag{name, o.Shared}, name, "as in kube-apiserver, for all services; can be repeated")
	}
	fs.StringArrayVar(&o.CoreArgs, "core-arg", nil, "additional flag for each replica of core, as in --core-arg=--v=4; can be repeated")
	fs.StringArrayVar(&o.ExtensionsArgs, "extensions-arg", nil, "additional flag for each replica of extensions; can be repeated")
	fs.StringArrayVar(&o.AggregatorArgs, "aggregator-arg", nil, "additional flag for each aggregator; can be repeated")
}

// optionalFlag says whether to run an optional service.
type optionalFlag struct {
	run     map[string]bool
	service string
}

func (f *optionalFlag) String() string { return strconv.FormatBool(f.run[f.service]) }
func (f *optionalFlag) Type() string   { return "bool" }

func (f *optionalFlag) Set(value string) (err error) {
	f.run[f.service], err = strconv.ParseBool(value)
	return err
}

// sharedFlag collects the values of a flag that all services get.
type sharedFlag struct {
	name   string
	values map[string][]string
}

func (f *sharedFlag) String() string { return strings.Join(f.values[f.name], " ") }
func (f *sharedFlag) Type() string   { return "string" }

func (f *sharedFlag) Set(value string) error {
	f.values[f.name] = append(f.values[f.name], value)
	return nil
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
