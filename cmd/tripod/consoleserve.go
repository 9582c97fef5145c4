// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/console"
)

func newConsoleServeCommand() *cobra.Command {
	options := console.NewTeamOptions()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the console to a team, whose members sign in",
		Long: `Serve the console to a team by TLS. Its users sign in with a bearer token, or at an OpenID Connect issuer whose tokens the API server accepts. The console reads the API
server with the token of each user, has no rights of its own, and changes nothing. It keeps tokens only in memory, until their sessions end.

The Helm chart runs it (console.enabled).`,
		Example: `  tripod console serve --server https://api.example.com --certificate-authority ca.crt \
    --host console.example.com --tls-cert-file tls.crt --tls-private-key-file tls.key
  tripod console serve ... --oidc-issuer-url https://login.example.com --oidc-client-id tripod`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			server, err := console.ListenForTeam(ctx, options)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The console of %s serves %v at %s\n", options.API.Host, options.Hosts, server.Address())
			return server.Serve(ctx)
		},
	}
	options.AddFlags(cmd.Flags())
	return cmd
}
