// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/admin/join"
)

func newJoinCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "join",
		Short: "Let nodes join by kubeadm join",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJoinPrepareCommand(), newJoinTokenCommand())
	return cmd
}

func newJoinPrepareCommand() *cobra.Command {
	var c join.Config
	var kubeconfig, server, kubelet, kubeProxy string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "prepare --endpoint HOST:PORT",
		Short: "Write what kubeadm join reads",
		Long: `Write the ConfigMaps and the rights that kubeadm init would write for nodes that join: cluster-info in kube-public, kubeadm-config and
kubelet-config in kube-system, and the roles of bootstrap tokens and nodes. With --coredns and --kube-proxy, also install these addons of
kubeadm. Run it again to change them. The cluster needs kube-controller-manager, which signs the certificates of kubelets.`,
		Example: `  tripod join prepare --kubeconfig tripod.kubeconfig --endpoint api.example.com:443 --service-cidr 10.0.0.0/16
  tripod join token --kubeconfig tripod.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := checkedConfig(kubeconfig, server)
			if err != nil {
				return err
			}
			if err := rest.LoadTLSFiles(config); err != nil {
				return err
			}
			c.Version, c.CA = version.Get().GitVersion, config.CAData
			if c.Kubelet, err = readOptional("kubelet-config", kubelet); err != nil {
				return err
			}
			if c.Addons.KubeProxyConfig, err = readOptional("kube-proxy-config", kubeProxy); err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "tripod"))
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return join.Prepare(ctx, client, c)
		},
	}
	fs := cmd.Flags()
	addAPIFlags(cmd, &kubeconfig, &server)
	fs.StringVar(&c.Endpoint, "endpoint", "", "host and port at which nodes reach the API, as in api.example.com:443")
	fs.StringVar(&c.ServiceCIDR, "service-cidr", "10.0.0.0/16", "addresses of Services: --service-cluster-ip-range of core")
	fs.StringVar(&c.PodCIDR, "pod-network-cidr", "", "addresses of pods: --cluster-cidr of kube-controller-manager")
	fs.StringVar(&c.DNSDomain, "service-dns-domain", "cluster.local", "domain of the names of Services")
	fs.StringVar(&kubelet, "kubelet-config", "",
		"file with a KubeletConfiguration for all nodes; it needs only what shall differ from kubeadm's")
	addAddonFlags(fs, &c.Addons, &kubeProxy)
	fs.DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the API")
	if err := cmd.MarkFlagRequired("endpoint"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

// addAddonFlags adds the flags of addons. The file with the configuration of kube-proxy is read later.
func addAddonFlags(fs *pflag.FlagSet, a *join.Addons, kubeProxyConfig *string) {
	fs.BoolVar(&a.CoreDNS, "coredns", false, "install CoreDNS")
	fs.StringVar(&a.CoreDNSImage.Repository, "coredns-image-repository", "", "where the image coredns is (default registry.k8s.io/coredns)")
	fs.StringVar(&a.CoreDNSImage.Tag, "coredns-image-tag", "", "tag of the image of CoreDNS (default that of kubeadm)")
	fs.BoolVar(&a.KubeProxy, "kube-proxy", false, "install kube-proxy")
	fs.StringVar(&a.KubeProxyImage.Repository, "kube-proxy-image-repository", "", "where the image kube-proxy is (default registry.k8s.io)")
	fs.StringVar(&a.KubeProxyImage.Tag, "kube-proxy-image-tag", "", "tag of the image of kube-proxy (default the version of Kubernetes)")
	fs.StringVar(kubeProxyConfig, "kube-proxy-config", "",
		"file with a KubeProxyConfiguration; it needs only what shall differ from kubeadm's")
}

// readOptional returns the content of the file that a flag names, or nothing if the flag is not given.
func readOptional(flag, file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return content, nil
}

func newJoinTokenCommand() *cobra.Command {
	var kubeconfig, server, description, format string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a bootstrap token and print the kubeadm join command",
		Long: `Make a bootstrap token and print the command that a node runs to join, with the hash of the CA that it shall trust. Keep the command
secret: with the token, any machine can join.`,
		Example: `  tripod join token --kubeconfig tripod.kubeconfig --ttl 1h`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format, formatText); err != nil {
				return err
			}
			config, err := checkedConfig(kubeconfig, server)
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "tripod"))
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			token, err := join.MakeToken(ctx, client, ttl, description)
			if err != nil {
				return err
			}
			if format == formatJSON {
				return printJSON(cmd.OutOrStdout(), token)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token.Command)
			return err
		},
	}
	fs := cmd.Flags()
	addAPIFlags(cmd, &kubeconfig, &server)
	fs.DurationVar(&ttl, "ttl", 24*time.Hour, "how long the token is good; 0 means forever")
	fs.StringVar(&description, "description", "", "what the token is for, for others who list tokens")
	fs.StringVarP(&format, "output", "o", formatText,
		"format of the output: text or json, which also has the parts of the command and when the token ends")
	return cmd
}

// addAPIFlags adds the flags of [checkedConfig].
func addAPIFlags(cmd *cobra.Command, kubeconfig, server *string) {
	cmd.Flags().StringVar(kubeconfig, "kubeconfig", "", "kubeconfig of an administrator")
	addKubeconfigName(cmd, kubeconfig)
	cmd.Flags().StringVar(server, "server", "", "URL of the API, instead of the one in the kubeconfig")
}
