// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package environment gives end-to-end tests a kind cluster with the images of this repository, and the chart to install into it.
//
// Environment variables configure it:
//
//	KIND_NODE_IMAGE, KIND_CONFIG  image of the node and configuration file of kind (default: those of kind)
//	E2E_CLUSTER                   name of the cluster (default: tripod-e2e). The tests use an existing cluster and leave it
//	E2E_PORT                      port of 127.0.0.1 for Tripod (default: that of KIND_CONFIG, or 30080)
//	E2E_POSTGRES                  archive with an image of PostgreSQL (default: that of the chart is pulled). e2e/testdata/postgres-image makes one
//	E2E_KEEP                      if not empty, the tests also leave a cluster that they created
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
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/test/framework"
)

// Node ports that kind maps to ports of 127.0.0.1, for Services of type NodePort.
const (
	NodePort      int32 = 30080
	OtherNodePort int32 = 30081
)

// images has the names of the archives in bin/images.
var images = func() []string {
	images := []string{"tripod"}
	for _, service := range list.Names() {
		images = append(images, list.Program(service))
	}
	return images
}()

// Environment is a cluster to install Tripod in.
type Environment struct {
	Cluster *kindcluster.Cluster
	// Dir is the directory of kubeconfigs and other files of the cluster.
	Dir string

	root, tag string
}

// ClusterName returns the name of the cluster. A package that needs a cluster of its own gives a suffix.
func ClusterName(suffix string) string {
	return cmp.Or(os.Getenv("E2E_CLUSTER"), "tripod-e2e") + suffix
}

// Option changes the cluster that [Up] creates.
type Option func(*settings)

type settings struct {
	kindcluster.Options
	pulled bool
}

// Workers gives the cluster a number of nodes besides that of the control plane. Without it, the cluster has the nodes of KIND_CONFIG, or one.
func Workers(count int) Option {
	return func(s *settings) { s.Workers = count }
}

// Bare gives the cluster nodes without kubeadm, and loads no images.
func Bare() Option {
	return func(s *settings) { s.Bare = true }
}

// Pulled loads no images: the nodes pull them from a registry.
func Pulled() Option {
	return func(s *settings) { s.pulled = true }
}

// Up creates the cluster, unless it exists, and loads the images that `make images` built.
func Up(ctx context.Context, suffix string, with ...Option) (*Environment, error) {
	root, err := framework.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	e := &Environment{root: root, tag: "dev"}
	var s settings
	for _, change := range with {
		change(&s)
	}
	if !s.pulled {
		if e.tag, err = tagOf(filepath.Join(root, "bin", "images")); err != nil {
			return nil, fmt.Errorf("there are no images; run `make images`: %w", err)
		}
	}
	name := ClusterName(suffix)
	e.Dir = filepath.Join(root, "bin", "e2e", name)
	if err := os.MkdirAll(e.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create a directory for the cluster: %w", err)
	}
	ports, err := ports(suffix)
	if err != nil {
		return nil, err
	}
	s.Name, s.Image, s.ConfigFile = name, os.Getenv("KIND_NODE_IMAGE"), os.Getenv("KIND_CONFIG")
	s.Ports, s.Dir = ports, e.Dir
	if e.Cluster, err = kindcluster.Up(ctx, s.Options); err != nil || s.Bare || s.pulled {
		return e, err
	}
	return e, e.load(filepath.Join(root, "bin", "images"), e.tag)
}

// LoadOlder also loads the images that were built in another copy of this repository, and returns their tag.
func (e *Environment) LoadOlder(folder string) (tag string, err error) {
	archives := filepath.Join(e.root, folder, "bin", "images")
	if tag, err = tagOf(archives); err != nil {
		return "", fmt.Errorf("there are no images; run `make images` in %s: %w", folder, err)
	}
	return tag, e.load(archives, tag)
}

// tagOf returns the tag of the images in a directory.
func tagOf(archives string) (string, error) {
	tag, err := os.ReadFile(filepath.Join(archives, "tag"))
	return strings.TrimSpace(string(tag)), err
}

// ports maps ports of the node to ports of the host. Only the main cluster has a fixed port.
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

// Tag returns the tag of Tripod's images.
func (e *Environment) Tag() string { return e.tag }

func (e *Environment) load(archives, tag string) error {
	return progress.Step("load the images "+tag, func() error {
		for _, name := range images {
			if _, err := e.Cluster.Load(filepath.Join(archives, name+".tar")); err != nil {
				return err
			}
		}
		return nil
	})
}

// Postgres returns values for the image of PostgreSQL, and loads it if E2E_POSTGRES names an archive.
func (e *Environment) Postgres() (release.Values, error) {
	archive := os.Getenv("E2E_POSTGRES")
	if archive == "" {
		return release.Values{}, nil
	}
	if _, err := e.Cluster.Load(archive); err != nil {
		return nil, err
	}
	return release.Values{"registry": "docker.io", "repository": "tripod-e2e/postgres", "tag": "debian"}, nil
}

// Down removes the cluster if Up created it and E2E_KEEP is not set.
func (e *Environment) Down() error {
	if !e.Cluster.Made || os.Getenv("E2E_KEEP") != "" {
		progress.Printf("the cluster %s stays; `make e2e-down` removes it", e.Cluster.Name)
		return nil
	}
	return errors.Join(kindcluster.Down(e.Cluster.Name), os.RemoveAll(e.Dir))
}

// Release returns a release of the chart. It is not installed yet; [Environment.Values] has the values to install it with.
func (e *Environment) Release(name, namespace string) *release.Release {
	tools := release.Tools{Helm: filepath.Join(e.root, "bin", "tools", "helm"), Tripod: filepath.Join(e.root, "bin", "tripod")}
	return release.New(e.Cluster, tools, filepath.Join(e.root, "deploy", "helm", "tripod"), name, namespace, e.Dir)
}

// Values returns values for the chart that suit this cluster: the loaded images, the cluster's own etcd image, data in volumes of
// [Environment.Volume], and a node port for access from outside. It loads the kube-controller-manager that every release runs.
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
	controllers, err := e.Program(e.Cluster, "kube-controller-manager")
	if err != nil {
		return nil, err
	}
	return release.Values{
		"image": release.Values{"tag": e.tag},
		// With this request all pods fit on a node of two processors.
		"controllerManager": release.Values{"image": controllers, "resources": release.Values{"requests": release.Values{"cpu": "20m"}}},
		"etcd": release.Values{
			"image":       release.Values{"registry": registry, "repository": repository, "tag": etcdTag},
			"persistence": release.Values{"storageClassName": VolumeClass, "size": "1Gi"},
		},
		"service":    release.Values{"type": "NodePort", "nodePort": nodePort},
		"kubeconfig": release.Values{"server": fmt.Sprintf("https://127.0.0.1:%d", port)},
	}, nil
}

// Collect writes logs, objects and events, which may explain a failure, to artifacts/e2e/NAME.
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
