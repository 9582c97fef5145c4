// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command up creates a kind cluster with Tripod, for trials by hand. With -down it removes the cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

func main() {
	down := flag.Bool("down", false, "remove the cluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := up
	if *down {
		run = func(context.Context) error { return kindcluster.Down(environment.ClusterName("")) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

func up(ctx context.Context) error {
	e, err := environment.Up(ctx, "")
	if err != nil {
		return err
	}
	r := e.Release("tripod", "tripod-system")
	values, err := e.Values(ctx, environment.NodePort)
	if err == nil {
		err = e.Volume(ctx, "tripod")
	}
	if err == nil {
		err = r.Up(ctx, values)
	}
	if err != nil {
		return errors.Join(err, e.Collect(r))
	}
	fmt.Printf(`
Tripod runs in the kind cluster %s:

    bin/tripod kubectl --kubeconfig %s get apiservices
    bin/tripod kubectl --kubeconfig %s -n %s get pods     # the cluster that it runs in

`+"`make e2e-down`"+` removes both.
`, e.Cluster.Name, r.Kubeconfig, e.Cluster.Kubeconfig, r.Namespace)
	return nil
}
