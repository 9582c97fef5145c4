// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/admin/scaffold"
)

func newNewClientCommand() *cobra.Command {
	directory, versions := ".", []string(nil)
	cmd := &cobra.Command{
		Use:   "client",
		Short: "Generate Go clients of an API service",
		Long: `Generate Go clients of an API service in its folder client: typed clients, apply configurations, listers and informers. Kubernetes'
own generators (k8s.io/code-generator) write them, in the version of k8s.io/client-go that the service requires.
Run it in the folder of the service, and again after a new kind or version:

  tripod new client

The first run marks types with +genclient. Change these comments as you like. After a change of fields, make generate is enough.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			module, err := scaffold.Open(directory)
			if err != nil {
				return err
			}
			client, err := module.GenerateClient(cmd.Context(), versions, progressTo(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			return sayHowToUse(cmd.OutOrStdout(), client)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&directory, "directory", directory, "folder of the service")
	fs.StringSliceVar(&versions, "version", nil, "versions that have clients; the default is all")
	return cmd
}

func sayHowToUse(out io.Writer, client *scaffold.Client) error {
	folders := []string{"clientset", "applyconfiguration"}
	if client.Informers {
		folders = append(folders, "listers", "informers")
	}
	_, err := fmt.Fprintf(out, "%s has the clients of %s, as Go packages: %s.\n",
		client.Package, strings.Join(client.Versions, ", "), strings.Join(folders, ", "))
	if err == nil && !client.Informers {
		_, err = fmt.Fprintf(out, "Listers and informers are missing: informer-gen makes a package of the last folder of the module's path, "+
			"and %s is no name of one.\n", path.Base(path.Dir(client.Package)))
	}
	return err
}
