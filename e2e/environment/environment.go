// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package environment is what end-to-end tests start from: a kind cluster with the images of this repository, and the chart
// to install into it.
//
// It is configured by environment variables:
//
//	KIND_NODE_IMAGE, KIND_CONFIG  image of the node and configuration file of kind; kind's own by default
//	E2E_CLUSTER                   name of the cluster, tripod-e2e. One that is there is used, and stays
//	E2E_PORT                      port of 127.0.0.1 for Tripod; that of KIND_CONFIG, or 30080
//	E2E_KEEP                      not empty: a cluster that the tests made stays, too
package environment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// Ports of nodes that are reached at 127.0.0.1, for Services of type NodePort.
const (
	NodePort      int32 = 30080
	OtherNodePort int32 = 30081
)

// images are the names of the archives in bin/images.
var images = []string{"tripod", "tripod-aggregator", "tripod-core", "tripod-extensions"}

// Environment is a cluster to install Tripod in.
type Environment struct {
	Cluster *kindcluster.Cluster
	// Dir has kubeconfigs and other files of the cluster.
	Dir string

	root, tag string
}

// ClusterName returns the name of the cluster that tests use. A package that needs one of its own has a suffix.
func ClusterName(suffix string) string {
	return cmp.Or(os.Getenv("E2E_CLUSTER"), "tripod-e2e") + suffix
}

// Up makes the cluster, or takes the one that is there, and has it know the images of Tripod, which `make images` built.
func Up(ctx context.Context, suffix string) (*Environment, error) {
	root, err := framework.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	e := &Environment{root: root}
	tag, err := os.ReadFile(filepath.Join(root, "bin", "images", "tag"))
	if err != nil {
		return nil, fmt.Errorf("no images: run make images: %w", err)
	}
	e.tag = strings.TrimSpace(string(tag))
	name := ClusterName(suffix)
	e.Dir = filepath.Join(root, "bin", "e2e", name)
	if err := os.MkdirAll(e.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make a directory for the cluster: %w", err)
	}
	ports, err := ports(suffix)
	if err != nil {
		return nil, err
	}
	e.Cluster, err = kindcluster.Up(ctx, kindcluster.Options{
		Name: name, Image: os.Getenv("KIND_NODE_IMAGE"), ConfigFile: os.Getenv("KIND_CONFIG"), Ports: ports, Dir: e.Dir,
	})
	if err != nil {
		return nil, err
	}
	return e, e.load()
}

// ports returns the ports of the host for those of the node. Only the main cluster has one that is known beforehand.
func ports(suffix string) (map[int32]int32, error) {
	if suffix != "" {
		return map[int32]int32{NodePort: kindcluster.AnyPort, OtherNodePort: kindcluster.AnyPort}, nil
	}
	all := map[int32]int32{NodePort: 0, OtherNodePort: 0}
	if port := os.Getenv("E2E_PORT"); port != "" {
		n, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("E2E_PORT: %w", err)
		}
		all[NodePort] = int32(n)
	}
	return all, nil
}

func (e *Environment) load() error {
	return progress.Step("load the images "+e.tag, func() error {
		for _, name := range images {
			if _, err := e.Cluster.Load(filepath.Join(e.root, "bin", "images", name+".tar")); err != nil {
				return err
			}
		}
		return nil
	})
}

// Down removes what Up made; a cluster that was there before stays.
func (e *Environment) Down() error {
	if !e.Cluster.Made || os.Getenv("E2E_KEEP") != "" {
		progress.Printf("the cluster %s stays; make e2e-down removes it", e.Cluster.Name)
		return nil
	}
	return errors.Join(kindcluster.Down(e.Cluster.Name), os.RemoveAll(e.Dir))
}

// Release returns a release of the chart, which is yet to be installed with [Environment.Values].
func (e *Environment) Release(name, namespace string) *release.Release {
	tools := release.Tools{Helm: filepath.Join(e.root, "bin", "tools", "helm"), Tripod: filepath.Join(e.root, "bin", "tripod")}
	return release.New(e.Cluster, tools, filepath.Join(e.root, "deploy", "helm", "tripod"), name, namespace, e.Dir)
}

// Values returns those by which the chart runs in this cluster: with the images that are loaded, the etcd that the cluster itself
// has, data in volumes of [Environment.Volume], and reached from outside at a port of the node.
func (e *Environment) Values(ctx context.Context, nodePort int32) (release.Values, error) {
	image, etcdTag, err := e.Cluster.Image(ctx, "etcd")
	if err != nil {
		return nil, err
	}
	registry, repository, _ := strings.Cut(image, "/")
	port, err := e.Cluster.HostPort(ctx, nodePort)
	if err != nil {
		return nil, err
	}
	return release.Values{
		"image": release.Values{"tag": e.tag},
		"etcd": release.Values{
			"image":       release.Values{"registry": registry, "repository": repository, "tag": etcdTag},
			"persistence": release.Values{"storageClassName": volumeClass, "size": "1Gi"},
		},
		"service":    release.Values{"type": "NodePort", "nodePort": nodePort},
		"kubeconfig": release.Values{"server": fmt.Sprintf("https://127.0.0.1:%d", port)},
	}, nil
}

// Collect writes to artifacts/e2e/NAME what may explain why something failed.
func (e *Environment) Collect(releases ...*release.Release) error {
	dir := filepath.Join(e.root, "artifacts", "e2e", e.Cluster.Name)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("cannot collect: %w", err)
	}
	err := e.Cluster.Collect(dir, filepath.Join(e.root, "bin", "tripod"), "kubectl")
	for _, r := range releases {
		err = errors.Join(err, r.Collect(dir))
	}
	progress.Printf("logs, manifests and events are in %s", dir)
	return err
}
