// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/atomicfile"
	"github.com/tripod-k8s/tripod/local/kubeapiserver"
)

func newStaticPodsCommand() *cobra.Command {
	var manifest, output string
	pods := kubeapiserver.StaticPods{}
	cmd := &cobra.Command{
		Use:   "static-pods --manifest FILE --output DIR",
		Short: "Make the static pods of a control-plane node from that of kube-apiserver",
		Long: `Read the static pod of kube-apiserver that kubeadm wrote, and write three: core, extensions and the aggregator, which takes the
name and the address of kube-apiserver. Each flag goes to the services that have it. Run the command as root on the
control-plane node, since it reads the files that the flags name and makes the certificates by which the services trust each other.

The kubelet runs the static pods once they are in /etc/kubernetes/manifests. Run the command again before the certificates
expire, after a year, or to change a flag or the version; the services reload renewed certificates by themselves.`,
		Example: `  cp /etc/kubernetes/manifests/kube-apiserver.yaml /etc/kubernetes/kube-apiserver.stock.yaml
  tripod static-pods --manifest /etc/kubernetes/kube-apiserver.stock.yaml --output /etc/kubernetes/manifests`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeStaticPods(cmd.Context(), cmd.OutOrStdout(), pods, manifest, output)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&manifest, "manifest", "", "copy of the static pod of kube-apiserver")
	fs.StringVar(&output, "output", "", "directory for the three static pods")
	fs.StringVar(&pods.Repository, "image-repository", "docker.io/tripod-k8s", "prefix of the names of the images")
	fs.StringVar(&pods.Tag, "image-tag", service.Version, "tag of the images")
	fs.StringVar(&pods.CertDir, "cert-dir", "/etc/kubernetes/pki/tripod", "directory for the certificates by which the services trust each other")
	for _, name := range []string{"manifest", "output"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // there is no such flag
		}
	}
	return cmd
}

func writeStaticPods(ctx context.Context, out io.Writer, pods kubeapiserver.StaticPods, manifest, output string) error {
	var err error
	if pods.CertDir, err = filepath.Abs(pods.CertDir); err != nil {
		return err
	}
	if err := refuseToOverwrite(manifest, filepath.Join(output, kubeapiserver.ManifestName)); err != nil {
		return err
	}
	if pods.Manifest, err = os.ReadFile(manifest); err != nil {
		return fmt.Errorf("--manifest: %w", err)
	}
	manifests, err := pods.Manifests(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", manifest, err)
	}
	// The aggregator comes last: it replaces kube-apiserver.
	for _, pod := range manifests {
		path := filepath.Join(output, pod.File)
		if err := atomicfile.Write(path, pod.Content); err != nil {
			return fmt.Errorf("cannot write a static pod: %w", err)
		}
		fmt.Fprintln(out, path) //nolint:errcheck // nobody reads it then
	}
	return nil
}

// refuseToOverwrite fails if the manifest to read is the file to write.
func refuseToOverwrite(manifest, file string) error {
	read, err := os.Stat(manifest)
	if err != nil {
		return fmt.Errorf("--manifest: %w", err)
	}
	if written, err := os.Stat(file); err == nil && os.SameFile(read, written) {
		return fmt.Errorf("--manifest %s is in the directory of --output: keep a copy elsewhere, and give that", manifest)
	}
	return nil
}
