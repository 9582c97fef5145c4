// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/test/framework"
)

// The sides that are compared.
const (
	stock = "stock"
	// noise is stock once more. How far its ratio is from 1 shows what two runs of the same programs differ by.
	noise  = "noise"
	tripod = "tripod"
)

// The names of processes.
const (
	aggregator    = "aggregator"
	core          = "core"
	extensions    = "extensions"
	kubeAPIServer = "kube-apiserver"
)

// side is kube-apiserver, Tripod, or a variant of Tripod.
type side struct {
	Name string
	// env is the environment of its processes.
	env []string
	// binaries is the directory with the binaries of a variant.
	binaries string
	// flunders is the program of an API service with two replicas beside it, in bin/, or empty.
	flunders string
}

func (s side) isStock() bool { return s.Name == stock || s.Name == noise }

// sides returns what can be compared.
func sides() []side { return []side{{Name: stock}, {Name: noise}, {Name: tripod}} }

// cluster is one side, which runs with an etcd of its own.
type cluster struct {
	*framework.Cluster
	side side
	// servers are the processes that serve the API.
	servers []process.Process
	// replicas are the processes of the API service.
	replicas []*framework.Process
	etcd     process.Process
	// ready is the time from the start of the first process until all are ready.
	ready time.Duration

	env    *framework.Environment
	stock  *framework.Stock
	fleet  *framework.Fleet
	failed bool
}

// start starts one side, with more flags for all its processes. The named replicas can be added later.
func (s side) start(ctx context.Context, later []string, args ...string) (_ *cluster, err error) {
	env, err := framework.New("bench-" + s.Name)
	if err != nil {
		return nil, err
	}
	c := &cluster{side: s, env: env, failed: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if s.isStock() {
		err = c.startStock(ctx, args)
	} else {
		err = c.startTripod(ctx, later, args)
	}
	if err == nil && s.flunders == sampleServer {
		err = c.addSampleServer(ctx)
	}
	c.failed = err != nil
	return c, err
}

func (c *cluster) startStock(ctx context.Context, args []string) error {
	server, err := c.env.StartStock(ctx, framework.StockOptions{Args: args, Env: c.side.env})
	if err != nil {
		return err
	}
	c.ready = time.Since(server.Process.Started)
	c.stock, c.Cluster = server, server.Cluster
	c.servers = []process.Process{{Service: kubeAPIServer, PID: server.Process.PID()}}
	c.etcd = process.Process{Service: "etcd", PID: server.Etcd.PID()}
	return nil
}

// startEtcd starts the etcd of all services, and returns its URL.
func startEtcd(ctx context.Context, env *framework.Environment) (url string, _ process.Process, err error) {
	dir := filepath.Join(env.Dir, "etcd-of-all")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", process.Process{}, err
	}
	url, etcd, err := env.StartEtcdProcess(ctx, dir)
	if err != nil {
		return "", process.Process{}, err
	}
	return url, process.Process{Service: "etcd", PID: etcd.PID()}, nil
}

func (c *cluster) startTripod(ctx context.Context, later, args []string) error {
	url, etcd, err := startEtcd(ctx, c.env)
	if err != nil {
		return err
	}
	c.etcd = etcd
	options := framework.FleetOptions{EtcdURL: url, Env: c.side.env, Binaries: c.side.binaries}
	names := []string{"core-1", "extensions-1", "aggregator-1"}
	for i, name := range append(names, later...) {
		options.Replicas = append(options.Replicas, framework.ReplicaOptions{Name: name, Args: args, Later: i >= len(names)})
	}
	if c.side.flunders == wardle {
		for _, name := range []string{"wardle-1", "wardle-2"} {
			options.Replicas = append(options.Replicas, framework.ReplicaOptions{Name: name, Binary: c.env.Binary(wardle)})
		}
	}
	if c.fleet, err = c.env.StartFleet(ctx, options); err != nil {
		return err
	}
	c.ready = time.Since(c.fleet.Replica(names[0]).Process().Started)
	c.Cluster = c.fleet.Cluster
	for _, name := range names {
		c.servers = append(c.servers, process.Process{Service: strings.TrimSuffix(name, "-1"), PID: c.fleet.Replica(name).Process().PID()})
	}
	if c.side.flunders == wardle {
		c.addReplicas(c.fleet.Replica("wardle-1").Process(), c.fleet.Replica("wardle-2").Process())
	}
	return nil
}

// add starts another replica, of kube-apiserver or the named one of Tripod, and returns when it is ready.
func (c *cluster) add(ctx context.Context, name string) (process.Process, error) {
	if c.side.isStock() {
		other, err := c.stock.Beside(ctx, false)
		if err != nil {
			return process.Process{}, err
		}
		return process.Process{Service: name, PID: other.Process.PID()}, nil
	}
	replica := c.fleet.Replica(name)
	if err := replica.Start(); err != nil {
		return process.Process{}, err
	}
	return process.Process{Service: name, PID: replica.Process().PID()}, replica.WaitReady(ctx)
}

// close stops the processes. It keeps their logs if something failed.
func (c *cluster) close() error { return c.env.Close(c.failed) }
