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
	"github.com/spf13/pflag"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/admin/connect"
	"github.com/tripod-k8s/tripod/base/certs/kubeconfig"
)

// completionTimeout is how long a completion may ask a cluster.
const completionTimeout = 3 * time.Second

// connection has the flags of `tripod connect`.
type connection struct {
	kubeconfig, context, namespace string
	port                           int
	merge                          bool
}

func newConnectCommand() *cobra.Command {
	var o connection
	cmd := &cobra.Command{
		Use:   "connect RELEASE [-- COMMAND [ARG...]]",
		Short: "Open the API of a Helm release on this machine",
		Long: `Open the API of a Helm release on this machine: forward a port of 127.0.0.1 to an aggregator of the release, and write a kubeconfig for it. If the pod
goes, the port leads to another. Ctrl-C closes the port and removes the kubeconfig.

With a command, run it with $KUBECONFIG set, and end with its exit code when it ends.

The cluster of the release is the one that kubectl uses, or that of --kubeconfig and --context. You need the rights to list Deployments, to list and watch
Pods, to get the Secret RELEASE-kubeconfig, and to create pods/portforward in the namespace of the release.`,
		Example: `  tripod connect tripod --namespace tripod
  tripod connect tripod -n tripod -- kubectl get namespaces
  tripod connect tripod -n tripod --merge-kubeconfig`,
		Args:              connectArgs,
		ValidArgsFunction: o.completeReleases,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], args[1:], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	o.addHostFlags(fs)
	fs.IntVar(&o.port, "port", 0, "port of 127.0.0.1; 0 means any that is free")
	fs.BoolVar(&o.merge, "merge-kubeconfig", false, "add a context to your own kubeconfig, and make it current, until the command ends")
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts) // the flag is there
	return cmd
}

// connectArgs accepts a release, and after -- a command.
func connectArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 && len(args) > 1:
		return fmt.Errorf("write -- before a command, as in `tripod connect %s -- %s`", args[0], args[1])
	case len(args) == 0 || dash == 0:
		return errors.New("say which release")
	case dash > 1:
		return fmt.Errorf("%d releases before --, want one", dash)
	case dash == 1 && len(args) == 1:
		return errors.New("say which command after --")
	}
	return nil
}

// addHostFlags adds the flags that say where a release is.
func (o *connection) addHostFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster that the release runs in")
	fs.StringVar(&o.context, "context", "", "context of that kubeconfig; empty means the current one")
	fs.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the release; empty means that of the context")
}

// host returns a client of the cluster that the release runs in, and the namespace of the release.
func (o *connection) host() (*rest.Config, kubernetes.Interface, string, error) {
	loader := o.loader()
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, nil, "", errors.New("found no cluster with releases: set --kubeconfig or $KUBECONFIG to its kubeconfig")
	}
	if err != nil {
		return nil, nil, "", err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, nil, "", err
	}
	client, err := kubernetes.NewForConfig(config)
	return config, client, namespace, err
}

func (o *connection) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.context}
	overrides.Context.Namespace = o.namespace
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

func (o *connection) run(ctx context.Context, name string, command []string, out, news io.Writer) error {
	if o.port < 0 || o.port > 65535 {
		return fmt.Errorf("--port is %d, want 0 to 65535", o.port)
	}
	utilruntime.ErrorHandlers = nil // the tunnel says what happens to it
	connecting, stop := untilSignal(ctx)
	defer stop()
	config, client, namespace, err := o.host()
	if err != nil {
		return err
	}
	release, err := connect.Find(connecting, client, namespace, name)
	if err != nil {
		return err
	}
	entry, err := release.Credentials(connecting, client)
	if err != nil {
		return err
	}
	tunnel, err := connect.Open(connecting, release, connect.Options{
		Config: config, Client: client, Port: o.port, Progress: func(line string) { fmt.Fprintln(news, line) },
	})
	if err != nil {
		return err
	}
	defer tunnel.Close()
	entry.Cluster.Server = tunnel.Server()
	signals, letGo := connect.HoldSignals()
	defer letGo()
	write := connect.WriteKubeconfig
	if o.merge {
		write = connect.MergeKubeconfig
	}
	path, remove, err := write(entry)
	if err != nil {
		return err
	}
	switch {
	case connecting.Err() != nil:
	case len(command) > 0:
		err = connect.RunCommand(ctx, path, command, signals)
	default:
		if err = o.printUse(out, entry, tunnel, path); err == nil {
			<-signals
		}
	}
	return errors.Join(err, remove())
}

// printUse prints how to use the connection.
func (o *connection) printUse(out io.Writer, entry *kubeconfig.Entry, tunnel *connect.Tunnel, path string) error {
	use := "  export KUBECONFIG=" + path
	if o.merge {
		use = fmt.Sprintf("  kubectl --context %s get namespaces   # the current context of %s", entry.Name, path)
	}
	_, err := fmt.Fprintf(out, "Connected at %s, through the pod %s, until Ctrl-C. Use it in another terminal:\n\n%s\n\n",
		tunnel.Server(), tunnel.Pod(), use)
	return err
}

// completeReleases completes the first argument to the releases in the namespace.
func (o *connection) completeReleases(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault // a command
	}
	_, client, namespace, err := o.host()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	releases, err := connect.Names(ctx, client, namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return releases, cobra.ShellCompDirectiveNoFileComp
}
