// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/imagearchive"
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/e2e/progress"
)

const (
	binaries      = "../../bin/"
	assets        = binaries + "test-assets/"
	workloadImage = "docker.io/tripod-e2e/workload:dev"
	// workers are nodes besides the first: one takes pods, and one becomes a control plane.
	workers = 2
)

var (
	env *environment.Environment
	// kubernetes is the version of kubeadm, and so of the cluster.
	kubernetes string
	// first is the first control plane, worker a node for pods, and second another control plane.
	first, worker, second machine
)

func TestMain(m *testing.M) {
	environment.Main(m, "-kubeadm", prepare, func(e *environment.Environment) error { return e.Collect() },
		environment.Workers(workers), environment.Bare())
}

// prepare makes the nodes what machines are on which a user is about to run kubeadm.
func prepare(ctx context.Context, e *environment.Environment) error {
	env = e
	var others []machine
	for _, node := range e.Cluster.Nodes() {
		if node != e.Cluster.NodeName() {
			others = append(others, machine(node))
		}
	}
	if len(others) != workers {
		return fmt.Errorf("the kind cluster has %d workers, want %d: KIND_CONFIG must have none", len(others), workers)
	}
	first, worker, second = machine(e.Cluster.NodeName()), others[0], others[1]
	for _, m := range []machine{first, worker, second} {
		if err := m.prepare(ctx, !e.Cluster.Made); err != nil {
			return err
		}
	}
	version, err := first.exec(ctx, nil, "kubeadm", "version", "--output=short")
	if err != nil {
		return err
	}
	kubernetes = strings.TrimSpace(version)
	return progress.Step("load the images", func() error { return loadImages(ctx, e.Cluster, e.Dir) })
}

// loadImages loads two builds of Tripod, a workload, and the images that kubeadm requires and the nodes do not have.
func loadImages(ctx context.Context, cluster *kindcluster.Cluster, dir string) error {
	workload, err := imagearchive.Build(dir, workloadImage, "github.com/tripod-k8s/tripod/e2e/workload")
	if err != nil {
		return err
	}
	for _, archive := range []string{workload, binaries + "images/tripod.tar", binaries + "next/images/tripod.tar"} {
		if _, err := cluster.Load(archive); err != nil {
			return err
		}
	}
	for _, dir := range []string{"images", "next/images"} {
		tag, err := tagOf(dir)
		if err != nil {
			return err
		}
		if err := tagOnAll(ctx, repository+tag, imageOf(tag)); err != nil {
			return err
		}
	}
	wanted, err := first.exec(ctx, nil, "kubeadm", "config", "images", "list", "--kubernetes-version", kubernetes)
	if err != nil {
		return err
	}
	for image := range strings.FieldsSeq(wanted) {
		if err := provide(ctx, cluster, dir, image); err != nil {
			return err
		}
	}
	return nil
}

// provide gives the nodes an image that kubeadm requires. Nodes of another patch or minor version than kubeadm have others. So a component is packed
// from its binary in bin/test-assets. Images without one, such as CoreDNS, get the name that kubeadm requires. The image pause, which kubeadm only
// runs to see that pods run, becomes the workload.
func provide(ctx context.Context, cluster *kindcluster.Cluster, dir, image string) error {
	name, _, _ := strings.Cut(path.Base(image), ":")
	archive := filepath.Join(dir, name+".tar")
	known, err := first.exec(ctx, nil, "ctr", "--namespace=k8s.io", "images", "list", "--quiet", "name=="+image)
	if err != nil || strings.TrimSpace(known) != "" {
		return err
	}
	write := func() error { return imagearchive.WriteComponent(archive, image, assets+name) }
	if name == "pause" {
		write = func() error { return imagearchive.Write(archive, image, filepath.Join(dir, "workload")) }
	}
	if _, err := os.Stat(assets + name); name == "pause" || err == nil {
		if err := write(); err != nil {
			return err
		}
		_, err := cluster.Load(archive)
		return err
	}
	other, tag, err := cluster.Image(ctx, name)
	if err != nil {
		return err
	}
	return tagOnAll(ctx, other+":"+tag, image)
}

// tagOnAll gives an image another name on all machines.
func tagOnAll(ctx context.Context, image, name string) error {
	for _, m := range []machine{first, worker, second} {
		if _, err := m.exec(ctx, nil, "ctr", "--namespace=k8s.io", "images", "tag", "--force", image, name); err != nil {
			return err
		}
	}
	return nil
}
