// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tripod-k8s/tripod/test/framework"
)

// nodes are the nodes of each cluster.
var nodes = []string{"node-1", "node-2"}

// The clusters that are compared, and the programs with their versions.
const (
	stock  = "stock"
	tripod = "tripod"
)

var programs = map[string]string{stock: "bin/test-assets/kube-apiserver", tripod: "bin/tripod"}

// cluster is one of the two clusters that are compared.
type cluster struct {
	*framework.Cluster
	env    *framework.Environment
	failed bool
}

// startCluster starts stock or Tripod in a setting, and controllers.
func startCluster(ctx context.Context, o *options, side string, s *setting, suite []string) (_ *cluster, err error) {
	env, err := framework.New("conformance-" + side + "-" + s.name)
	if err != nil {
		return nil, err
	}
	c := &cluster{env: env, failed: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	gates := s.gateFlags(suite)
	args := slices.Concat(gates, s.apiFlags())
	if o.divided && side == tripod {
		for _, partition := range partitions {
			args = append(args, "--extensions-partition="+partition)
		}
	}
	fmt.Println(side, "starts", args)
	switch side {
	case stock:
		server, err := env.StartStock(ctx, framework.StockOptions{Args: args})
		if err != nil {
			return nil, err
		}
		c.Cluster = server.Cluster
	case tripod:
		services, err := env.StartTripod(ctx, framework.TripodOptions{Args: args})
		if err != nil {
			return nil, err
		}
		c.Cluster = services.Cluster
	}
	if err := env.StartControllers(ctx, c.Cluster, framework.ControllersOptions{Nodes: nodes, Args: gates}); err != nil {
		return nil, err
	}
	c.failed = false
	return c, nil
}

// close stops the cluster. It keeps the logs if a spec failed.
func (c *cluster) close() error { return c.env.Close(c.failed) }
