// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/local/kubeapiserver"
)

func newStaticPodsCommand() *cobra.Command {
	var manifest, output string
	pods := kubeapiserver.StaticPods{}
	cmd := &cobra.Command{
		Use:   "static-pods --manifest FILE --output DIR",
		Short: "Make the static pods of a control-plane node from that of kube-apiserver",
		Long: `Read the static pod of kube-apiserver that kubeadm wrote, and write those of core, extensions and the aggregator, which takes the
name and the address of kube-apiserver. Each flag goes to the services that have it. Run the command as root on the
control-plane node, since it makes the certificates by which the services trust each other, and copies the files that the flags
name: each service sees copies of its own files only, and runs as a user of its own.

The kubelet runs the static pods once they are in /etc/kubernetes/manifests. Run the command again when a file has changed, as
after 'kubeadm certs renew', before the certificates expire, after a year, or to change a flag or the version. The services reload
files by themselves.

With --extensions-partition, the custom resources of some API groups have static pods of their own. Give all control-plane nodes the
same list. The ports and the user of a partition follow from its place in the list, so append new ones.

With --replicas, services have several pods on the node. The command then changes a running service one replica after the other, and
waits until each is ready, so that no request is lost. Several aggregators share the port of kube-apiserver.`,
		Example: `  cp /etc/kubernetes/manifests/kube-apiserver.yaml /etc/kubernetes/kube-apiserver.stock.yaml
  tripod static-pods --manifest /etc/kubernetes/kube-apiserver.stock.yaml --output /etc/kubernetes/manifests

  # several replicas, on a node with enough memory
  tripod static-pods --manifest /etc/kubernetes/kube-apiserver.stock.yaml --output /etc/kubernetes/manifests \
    --replicas core=3,extensions=2,aggregator=2

  # static pods of their own for the custom resources of Crossplane and its providers
  tripod static-pods --manifest /etc/kubernetes/kube-apiserver.stock.yaml --output /etc/kubernetes/manifests \
    --extensions-partition crossplane='*.crossplane.io'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeStaticPods(cmd.Context(), cmd.OutOrStdout(), pods, manifest, output)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&manifest, "manifest", "", "copy of the static pod of kube-apiserver")
	fs.StringVar(&output, "output", "", "directory for the static pods")
	fs.StringVar(&pods.Repository, "image-repository", "localhost/tripod-k8s",
		"prefix of the names of the images, as in registry.example.com/tripod-k8s; the default is for images that were loaded into the node")
	fs.StringVar(&pods.Tag, "image-tag", service.Version, "tag of the images")
	fs.StringArrayVar(&pods.Partitions, "extensions-partition", nil,
		"partition of extensions and its API groups, as in crossplane=*.crossplane.io; can be repeated. It has a static pod of its own, whose "+
			"ports follow from its place in the list")
	fs.StringToIntVar(&pods.Replicas, "replicas", nil, "numbers of replicas, such as core=3,extensions=2,aggregator=2; the others have one")
	fs.StringToIntVar(&pods.Users, "users", nil,
		fmt.Sprintf("IDs of the users and groups as which the services run, such as core=2001,extensions=0; 0 is root, and the others have %v",
			kubeapiserver.DefaultUsers))
	fs.StringVar(&pods.EtcdCAKey, "etcd-ca-key", "",
		"key of the CA of etcd, which issues a client certificate of etcd for each service; "+
			"the default is the key beside --etcd-cafile, if there is one; with "+kubeapiserver.NoEtcdCAKey+", all use kube-apiserver's certificate")
	fs.StringVar(&pods.CertDir, "cert-dir", "/etc/kubernetes/pki/tripod",
		"directory for the certificates by which the services trust each other, and for the copies of files")
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
	if pods.Running, err = os.ReadFile(filepath.Join(output, kubeapiserver.ManifestName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--output: %w", err)
	}
	made, err := pods.Make(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", manifest, err)
	}
	progress := func(line string) {
		fmt.Fprintln(out, line)
	}
	for _, note := range made.Notes {
		progress("note: " + note)
	}
	if err := kubeapiserver.Rollout(ctx, output, made.Manifests, progress); err != nil {
		return err
	}
	return made.RemoveOthers()
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
