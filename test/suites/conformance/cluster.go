// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

// nodes are the nodes of each cluster.
var nodes = []string{"node-1", "node-2"}

// cluster is one of the two clusters that are compared.
type cluster struct {
	*framework.Cluster
	env    *framework.Environment
	failed bool
	runs   int
}

// startCluster starts stock or Tripod, and controllers.
func startCluster(ctx context.Context, name string) (_ *cluster, err error) {
	env, err := framework.New("conformance-" + name)
	if err != nil {
		return nil, err
	}
	c := &cluster{env: env, failed: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	fmt.Println(name, "starts")
	switch name {
	case stock:
		server, err := env.StartStock(ctx, framework.StockOptions{})
		if err != nil {
			return nil, err
		}
		c.Cluster = server.Cluster
	case tripod:
		services, err := env.StartTripod(ctx, framework.TripodOptions{})
		if err != nil {
			return nil, err
		}
		c.Cluster = services.Cluster
	}
	if err := env.StartControllers(ctx, c.Cluster, framework.ControllersOptions{Nodes: nodes}); err != nil {
		return nil, err
	}
	c.failed = false
	return c, nil
}

// close stops the cluster. It keeps the logs if a spec failed.
func (c *cluster) close() error { return c.env.Close(c.failed) }

// run is one run of ginkgo.
type run struct {
	// group is the name of the specs, for people.
	group string
	// focus is ginkgo's --focus.
	focus string
	// procs is how many specs run at a time, attempts how often a spec may run until it passes.
	procs, attempts int
	// timeout ends the run. Ginkgo skips specs that have not run by then.
	timeout time.Duration
}

// run runs specs. The results do not include skipped specs.
func (c *cluster) run(ctx context.Context, r run) (results, error) {
	c.runs++
	report := fmt.Sprintf("report-%d.json", c.runs)
	process, err := c.env.Start(framework.Command{
		Name: "ginkgo-" + r.group, Path: c.env.Binary("tools/ginkgo"), Dir: c.env.Dir,
		Output: newProgress(os.Stdout, c.Name+" "+r.group),
		Args: []string{
			"--procs=" + strconv.Itoa(r.procs), "--focus=" + r.focus, "--timeout=" + r.timeout.String(), "--flake-attempts=" + strconv.Itoa(r.attempts),
			"-v", "--no-color", "--silence-skips", "--output-dir=" + c.env.Dir, "--json-report=" + report,
			c.env.Binary("test-assets/e2e.test"), "--",
			"--kubeconfig=" + c.Kubeconfig, "--provider=skeleton", "--kubectl-path=" + c.env.Binary("test-assets/kubectl"),
			"--num-nodes=" + strconv.Itoa(len(nodes)), "--dump-logs-on-failure=false", "--disable-log-dump",
		},
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-process.Done():
	case <-ctx.Done():
		// Ginkgo would wait while the specs clean up, but the cluster goes anyway. Its processes are a group.
		return nil, errors.Join(ctx.Err(), syscall.Kill(-process.PID(), syscall.SIGKILL), process.Stop())
	}
	found, err := readReport(filepath.Join(c.env.Dir, report))
	if err != nil {
		c.failed = true
		return nil, fmt.Errorf("ginkgo ended with exit code %d, see %s: %w", process.ExitCode(), process.Log, err)
	}
	c.failed = c.failed || found.count() < len(found)
	return found, nil
}
