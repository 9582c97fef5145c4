// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/e2esuite"
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

// run runs specs. The results do not include skipped specs.
func (c *cluster) run(ctx context.Context, r e2esuite.Run) (e2esuite.Results, error) {
	c.runs++
	title := c.Name + " " + r.Name
	r.Name = fmt.Sprintf("%s-%d", r.Name, c.runs)
	r.Dir, r.Kubeconfig, r.Nodes = c.env.Dir, c.Kubeconfig, len(nodes)
	r.Ended = func(e e2esuite.Ended) { fmt.Printf("%s %3d %s %s\n", title, e.Number, e.Outcome, e.Name) }
	found, err := r.Do(ctx, c.env)
	c.failed = c.failed || err != nil && ctx.Err() == nil || found.Count() < len(found)
	return found, err
}
