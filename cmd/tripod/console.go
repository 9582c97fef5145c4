// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/admin/search"
	"github.com/tripod-k8s/tripod/console"
)

func newConsoleCommand() *cobra.Command {
	var kubeconfig, context string
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
			config, err := consoleConfig(kubeconfig, context)
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return console.Serve(ctx, console.Options{Config: config, Port: port, Out: cmd.OutOrStdout()})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster with search")
	fs.StringVar(&context, "context", "", "context of that kubeconfig; empty means the current one")
	fs.IntVar(&port, "port", 0, "port of 127.0.0.1; 0 means any that is free")
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts) // the flag is there
	return cmd
}

// consoleConfig returns how to reach the cluster with search, as the caller.
func consoleConfig(kubeconfig, context string) (*rest.Config, error) {
	config, err := startingConfigOf(kubeconfig)
	if err != nil {
		return nil, err
	}
	if context != "" {
		if config.Contexts[context] == nil {
			return nil, fmt.Errorf("--context: the kubeconfig has no context %q", context)
		}
		config.CurrentContext = context
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
