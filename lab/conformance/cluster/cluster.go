// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/tripod-k8s/tripod/e2e/controlplane"
	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/imagearchive"
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// suffix is that of the name of the cluster.
	suffix = "-conformance"
	// originalPath is where the node keeps kubeadm's manifest of kube-apiserver.
	originalPath = "/etc/kubernetes/kube-apiserver.kubeadm.yaml"
	// repository is the prefix of the images' names on the node.
	repository = "localhost/tripod-k8s"
	assetsDir  = "bin/test-assets"
	// suiteLabel is a label of the suite's namespaces.
	suiteLabel   = "e2e-framework"
	cleanTimeout = 5 * time.Minute
	// workers are the nodes that take pods: some specs need two.
	workers = 2
	// compactionFlag lets processes that live for two minutes compact etcd. A process compacts after one to two intervals, which are 5 minutes by default.
	compactionFlag = "--etcd-compaction-interval=30s"
)

// cluster is the kind cluster whose API server is exchanged.
type cluster struct {
	*kindcluster.Cluster
	env *environment.Environment

	// version is the version of Kubernetes that Tripod and the suite are built from, and nodeVersion that of the kubelet.
	version, nodeVersion string
	// stock is the manifest of kube-apiserver of that version.
	stock []byte
	root  string
}

// startCluster creates the cluster and makes its control plane one of the version that Tripod is built from.
func startCluster(ctx context.Context) (_ *cluster, err error) {
	root, err := framework.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	output, err := exec.CommandContext(ctx, filepath.Join(root, assetsDir, controlplane.APIServer), "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("ask for the version of stock (make suite-assets?): %w", err)
	}
	e, err := environment.Up(ctx, suffix, environment.Workers(workers))
	if err != nil {
		return nil, err
	}
	c := &cluster{Cluster: e.Cluster, env: e, version: strings.TrimPrefix(strings.TrimSpace(string(output)), "Kubernetes "), root: root}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, e.Collect(), e.Down())
	}
	return c, nil
}

func (c *cluster) prepare(ctx context.Context) error {
	if program := os.Getenv("CONFORMANCE_PREPARE"); program != "" {
		if err := progress.Step(program+" prepares the cluster", func() error {
			output, err := exec.CommandContext(ctx, program, c.Name).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w\n%s", err, output)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	kubelet, err := c.Exec(ctx, nil, "kubelet", "--version")
	if err != nil {
		return err
	}
	c.nodeVersion = strings.TrimPrefix(strings.TrimSpace(kubelet), "Kubernetes ")
	// Keep what kubeadm wrote, unless an earlier run has kept it.
	if _, err := c.Exec(ctx, nil, "cp", "--no-clobber", controlplane.Path(controlplane.APIServer), originalPath); err != nil {
		return err
	}
	original, err := c.Exec(ctx, nil, "cat", originalPath)
	if err != nil {
		return err
	}
	c.stock = []byte(original)
	return c.renewControlPlane(ctx)
}

// renewControlPlane gives a node of an older Kubernetes the control plane of this version, packed from the binaries that the tests have.
func (c *cluster) renewControlPlane(ctx context.Context) error {
	ours, err := utilversion.ParseSemantic(c.version)
	if err != nil {
		return err
	}
	node, err := utilversion.ParseSemantic(c.nodeVersion)
	if err != nil {
		return err
	}
	if ours.Major() == node.Major() && ours.Minor() == node.Minor() {
		return nil
	}
	progress.Printf("the node is of %s: its control plane becomes that of %s", c.nodeVersion, c.version)
	began := time.Now()
	for _, component := range []string{controlplane.APIServer, controlplane.ControllerManager, controlplane.Scheduler} {
		image := "docker.io/tripod-e2e/" + component + ":" + c.version
		archive := filepath.Join(c.env.Dir, component+".tar")
		if err := imagearchive.WriteComponent(archive, image, filepath.Join(c.root, assetsDir, component)); err != nil {
			return err
		}
		if _, err := c.Load(archive); err != nil {
			return err
		}
		if component == controlplane.APIServer {
			// It comes first, as in an upgrade by kubeadm: the others may need rights that only this version grants them.
			if c.stock, err = controlplane.WithImage(c.stock, image); err != nil {
				return err
			}
			if err := controlplane.UseOne(ctx, c.Cluster, c.stock); err != nil {
				return err
			}
			continue
		}
		manifest, err := controlplane.Read(ctx, c.Cluster, component)
		if err != nil {
			return err
		}
		has, err := controlplane.ImageOf(manifest)
		if err != nil {
			return err
		}
		if has == image {
			continue // an earlier run has done it
		}
		if manifest, err = controlplane.WithImage(manifest, image); err != nil {
			return err
		}
		if err := controlplane.Put(ctx, c.Cluster, component, manifest); err != nil {
			return err
		}
		if err := controlplane.WaitForImage(ctx, c.Cluster, component, image); err != nil {
			return err
		}
	}
	return controlplane.WaitForOthers(ctx, c.Cluster, began)
}

// clean removes what an interrupted run has left.
func (c *cluster) clean(ctx context.Context) error {
	left := metav1.ListOptions{LabelSelector: suiteLabel}
	namespaces, err := c.Client.CoreV1().Namespaces().List(ctx, left)
	if err != nil || len(namespaces.Items) == 0 {
		return err
	}
	return progress.Step(fmt.Sprintf("remove %d namespaces that an earlier run has left", len(namespaces.Items)), func() error {
		for i := range namespaces.Items {
			err := c.Client.CoreV1().Namespaces().Delete(ctx, namespaces.Items[i].Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return err
			}
		}
		return controlplane.Eventually(ctx, cleanTimeout, "the namespaces are gone", func(ctx context.Context) error {
			namespaces, err := c.Client.CoreV1().Namespaces().List(ctx, left)
			if err == nil && len(namespaces.Items) > 0 {
				err = fmt.Errorf("%s is there", namespaces.Items[0].Name)
			}
			return err
		})
	})
}

// versionOf returns the version of what a form runs.
func (c *cluster) versionOf(f form) string {
	if f == stockForm {
		return c.version
	}
	return c.env.Tag()
}

func (c *cluster) services(aggregators, cores, extensions int) controlplane.Services {
	return controlplane.Services{
		Binary: filepath.Join(c.root, "bin", "tripod"), Repository: repository, Tag: c.env.Tag(),
		Aggregator: aggregators, Core: cores, Extensions: extensions,
	}
}

// rolled are the services of the form that is rolled.
func (c *cluster) rolled() controlplane.Services { return c.services(2, 3, 2) }

// roller returns what rolls these services. run is the number of the run before, which distinguishes its rolls from those of other runs.
func (c *cluster) roller(run int) *roller {
	var number atomic.Int64
	return &roller{
		replicas: c.rolled().Replicas(), interval: rollInterval, done: rolls{},
		roll: func(ctx context.Context, replica string) error {
			return controlplane.Roll(ctx, c.Cluster, replica, fmt.Sprintf("%d-%d", run, number.Add(1)))
		},
	}
}

// use makes a form the API server, and returns when the control plane works with it.
func (c *cluster) use(ctx context.Context, f form) error {
	return progress.Step(fmt.Sprintf("the API server becomes %s %s", f, c.versionOf(f)), func() error {
		began := time.Now()
		var err error
		switch f {
		case stockForm:
			err = controlplane.UseOne(ctx, c.Cluster, c.stock)
		case dropInForm:
			var manifest []byte
			if manifest, err = controlplane.WithImage(c.stock, repository+"/tripod:"+c.env.Tag()); err == nil {
				err = controlplane.UseOne(ctx, c.Cluster, manifest)
			}
		case staticPodsForm:
			err = c.services(1, 1, 1).Use(ctx, c.Cluster, c.stock)
		case rollingForm:
			var manifest []byte
			if manifest, err = controlplane.WithFlags(c.stock, compactionFlag); err == nil {
				err = c.rolled().Use(ctx, c.Cluster, manifest)
			}
		}
		if err != nil {
			return err
		}
		if err := controlplane.WaitForOthers(ctx, c.Cluster, began); err != nil {
			return err
		}
		return c.clean(ctx)
	})
}
