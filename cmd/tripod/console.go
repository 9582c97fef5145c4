// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/admin/search"
	"github.com/tripod-k8s/tripod/console"
	"github.com/tripod-k8s/tripod/console/live"
	"github.com/tripod-k8s/tripod/local/up"
)

func newConsoleCommand() *cobra.Command {
	var kubeconfig, contextName string
	var port int
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show the objects of many clusters in a browser",
		Long: `Show the objects of many clusters in a browser: serve pages at 127.0.0.1 until Ctrl-C, and read search with your own credentials. The console changes nothing,
and shows what you may read. It prints the address for a browser, which works once, and opens no browser itself.

The cluster is the one that ` + "`tripod kubectl`" + ` uses, or that of --kubeconfig and --context. It needs search: ` + "`tripod up --search`" + ` runs it.`,
		Example: `  tripod console
  tripod console --kubeconfig hub.yaml --context jane --port 8001`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return fmt.Errorf("--port is %d, want 0 to 65535", port)
			}
			config, err := consoleConfig(kubeconfig, contextName)
			if err != nil {
				return err
			}
			options := console.Options{Config: config, Port: port, Used: nextAddress(cmd.OutOrStdout())}
			if kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == up.DataDir(up.DefaultDataDir()).Kubeconfig() {
				options.Instance = instanceOf(up.DataDir(up.DefaultDataDir()))
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			server, err := console.Listen(ctx, options)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The console of %s is at\n\n    %s\n\nuntil Ctrl-C. The address signs one browser in, once.\n",
				config.Host, server.Address())
			return server.Serve(ctx)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster with search")
	fs.StringVar(&contextName, "context", "", "context of that kubeconfig; empty means the current one")
	fs.IntVar(&port, "port", 0, "port of 127.0.0.1; 0 means any that is free")
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts) // the flag is there
	cmd.AddCommand(newConsoleServeCommand())
	return cmd
}

// consoleConfig returns how to reach the cluster with search, as the caller.
func consoleConfig(kubeconfig, contextName string) (*rest.Config, error) {
	config, err := startingConfigOf(kubeconfig)
	if err != nil {
		return nil, err
	}
	if contextName != "" {
		if config.Contexts[contextName] == nil {
			return nil, fmt.Errorf("--context: the kubeconfig has no context %q", contextName)
		}
		config.CurrentContext = contextName
	}
	if config.Contexts[config.CurrentContext] == nil {
		return nil, fmt.Errorf("the kubeconfig has no current context: choose one with --context, or start an instance with `tripod up --search`")
	}
	return search.HubConfig(config)
}

// startingConfigOf returns a kubeconfig, or the one that the commands go by.
func startingConfigOf(kubeconfig string) (*clientcmdapi.Config, error) {
	if kubeconfig == "" {
		return startingConfig()
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, clientcmd.ResolveLocalPaths(config)
}

// nextAddress returns a function that prints the address for another browser.
func nextAddress(out io.Writer) func(string) {
	return func(address string) { fmt.Fprintln(out, "Signed in. Another browser can use", address) }
}

func instanceOf(dir up.DataDir) live.Instance {
	return func(ctx context.Context, after int64) (*up.Observation, error) { return up.Observe(ctx, dir, after) }
}

// consoleBeside is the console of `tripod up --console`.
type consoleBeside struct {
	out    io.Writer
	served chan error
}

// start serves the console of an instance that is ready, and returns a line with its address.
func (c *consoleBeside) start(ctx context.Context, dir up.DataDir) (string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return "", err
	}
	server, err := console.Listen(ctx, console.Options{Config: config, Used: nextAddress(c.out), Instance: instanceOf(dir)})
	if err != nil {
		return "", err
	}
	c.served = make(chan error, 1)
	go func() { c.served <- server.Serve(ctx) }()
	return "the console is at " + server.Address() + ", which signs one browser in, once", nil
}

// wait returns when the console has ended, if it was started.
func (c *consoleBeside) wait() error {
	if c.served == nil {
		return nil
	}
	return <-c.served
}
