// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/admin/certs/secrets"
	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/local/up"
)

func newCertsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Show, make and renew certificates",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCertsShowCommand(), newCertsSecretsCommand())
	return cmd
}

func newCertsShowCommand() *cobra.Command {
	var dataDir, kubeconfig, namespace, selector string
	var format listFormat
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show when certificates expire",
		Long: `Show certificates and when they expire: those of an instance on this machine or, with --namespace, those in the Secrets
of a cluster.`,
		Example: `  tripod certs show
  tripod certs show --namespace tripod`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := func() ([]certs.Info, error) { return up.Certificates(up.DataDir(dataDir)) }
			if namespace != "" {
				client, err := newClient(kubeconfig)
				if err != nil {
					return err
				}
				list = func() ([]certs.Info, error) { return secrets.List(cmd.Context(), client, namespace, selector) }
			}
			certificates, err := list()
			if err != nil {
				return err
			}
			return printList(cmd.OutOrStdout(), format, certificates, func(c certs.Info) string { return c.Name }, printCertificates)
		},
	}
	addDataDirFlag(cmd, &dataDir)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace whose Secrets to show")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "labels of the Secrets to show, as in app.kubernetes.io/instance=tripod")
	addKubeconfigFlag(cmd, &kubeconfig)
	addListFormat(cmd, &format)
	return cmd
}

func newCertsSecretsCommand() *cobra.Command {
	var config, kubeconfig string
	var format listFormat
	var o secrets.Options
	cmd := &cobra.Command{
		Use:   "secrets --config FILE",
		Short: "Make and renew certificates in Secrets of a cluster",
		Long: `Make the certificates, keys and kubeconfig that FILE lists, as Secrets of a cluster, and renew those that are due. The
command leaves what is still good as it is, and deletes nothing. You can run it at any time, even twice at once.

Replacing a certificate authority takes three steps, each a run with --renew-ca: first services trust a new authority
besides the old one; then the new one issues all certificates; then services no longer trust the old one. Between two
steps all services must reload their files. Without --renew-ca, a run takes one step for an authority that expires soon.`,
		Example: `  tripod certs secrets --config certificates.yaml
  tripod certs secrets --config certificates.yaml --renew all
  tripod certs secrets --config certificates.yaml --renew-ca tripod-ca   # three times`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			wanted, err := secrets.Load(config)
			if err != nil {
				return err
			}
			client, err := newClient(kubeconfig)
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			results, err := secrets.Apply(ctx, client, wanted, o)
			if err != nil {
				return err
			}
			return printList(cmd.OutOrStdout(), format, results, func(r secrets.Result) string { return r.Secret }, printResults)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&config, "config", "", "file that lists the certificates")
	fs.StringSliceVar(&o.Renew, "renew", nil, "Secrets of certificates to renew now, or all")
	fs.StringSliceVar(&o.Rotate, "renew-ca", nil, "Secrets of certificate authorities to take the next step with")
	fs.DurationVar(&o.Settle, "settle", 5*time.Minute, "how long services have to reload their files between two steps of --renew-ca")
	fs.DurationVar(&o.Wait, "wait", 2*time.Minute, "how long to wait for Secrets that others make, such as cert-manager")
	addKubeconfigFlag(cmd, &kubeconfig)
	addListFormat(cmd, &format)
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

// addKubeconfigFlag adds the flag that names the cluster to work in.
func addKubeconfigFlag(cmd *cobra.Command, kubeconfig *string) {
	cmd.Flags().StringVar(kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster; by default $"+clientcmd.RecommendedConfigPathEnvVar+", ~/.kube/config or, in a pod, its service account")
}

// newClient returns a client for the cluster that the kubeconfig names, or that this process runs in.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to work in: %w", err)
	}
	rest.AddUserAgent(config, "tripod")
	return kubernetes.NewForConfig(config)
}

func printCertificates(out io.Writer, certificates []certs.Info) error {
	table, now := newTable(out, "NAME", "SUBJECT", "ISSUER", "EXPIRES", "LEFT"), time.Now()
	for _, c := range certificates {
		issuer, left := c.Issuer, "expired"
		if c.Issuer == c.Subject {
			issuer = "itself"
		}
		if c.Expires.After(now) {
			left = duration.HumanDuration(c.Expires.Sub(now))
		}
		row(table, c.Name, c.Subject, issuer, c.Expires.UTC().Format(time.RFC3339), left)
	}
	return table.Flush()
}

func printResults(out io.Writer, results []secrets.Result) error {
	table := newTable(out, "SECRET", "ACTION", "EXPIRES", "ROTATION")
	for _, r := range results {
		expires, rotation := "-", "-"
		if r.Expires != nil {
			expires = r.Expires.UTC().Format(time.RFC3339)
		}
		if r.Rotation != "" {
			rotation = string(r.Rotation)
		}
		row(table, r.Secret, r.Action, expires, rotation)
	}
	return table.Flush()
}
