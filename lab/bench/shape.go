// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/local/balancer"
	"github.com/tripod-k8s/tripod/test/framework"
)

// dropIn is Tripod's drop-in, one process of each service below another.
const dropIn = "drop-in"

// shape is a control plane by the number of its servers.
type shape struct {
	// Name is what the flag -shapes calls it: by default stock, N*stock, drop-in, or AGGREGATORS/CORES/EXTENSIONS.
	Name string

	stock, aggregators, cores, extensions int
	dropIn                                bool
	// binaries is the directory with the binaries of the services. The default is bin/.
	binaries string
}

func parseShapes(list string) ([]shape, error) {
	var all []shape
	for name := range strings.SplitSeq(list, ",") {
		name, form, named := strings.Cut(name, "=")
		if !named {
			form = name
		}
		form, binaries, _ := strings.Cut(form, "@")
		one, err := parseShape(form)
		if err == nil && binaries != "" && one.stock > 0 {
			err = fmt.Errorf("%s has no binaries in another directory", form)
		}
		if err == nil && slices.ContainsFunc(all, func(other shape) bool { return other.Name == name }) {
			err = fmt.Errorf("two are called %q; write NAME=%[1]s to give one of them another name", name)
		}
		if err != nil {
			return nil, fmt.Errorf("-shapes: %w", err)
		}
		one.Name, one.binaries = name, binaries
		all = append(all, one)
	}
	return all, nil
}

func parseShape(name string) (shape, error) {
	var s shape
	wrong := fmt.Errorf("%q is none of %s, N*%[2]s, %s and AGGREGATORS/CORES/EXTENSIONS", name, stock, dropIn)
	if name == dropIn {
		s.dropIn, s.stock = true, 1
		return s, nil
	}
	if times, isStock := strings.CutSuffix(name, stock); isStock {
		s.stock = 1
		if times == "" {
			return s, nil
		}
		n, err := strconv.Atoi(strings.TrimSuffix(times, "*"))
		s.stock = n
		if err != nil || n < 1 || !strings.HasSuffix(times, "*") {
			return s, wrong
		}
		return s, nil
	}
	counts := strings.Split(name, "/")
	if len(counts) != 3 {
		return s, wrong
	}
	for i, into := range []*int{&s.aggregators, &s.cores, &s.extensions} {
		n, err := strconv.Atoi(counts[i])
		if err != nil || n < 1 {
			return s, wrong
		}
		*into = n
	}
	return s, nil
}

// alone reports whether each server of the shape is the only one of its service, so that its metrics are those of the service.
func (s shape) alone() bool { return max(s.stock, s.aggregators, s.cores, s.extensions) == 1 }

// tripod reports whether the shape is one of Tripod.
func (s shape) tripod() bool { return s.stock == 0 || s.dropIn }

// controlPlane is a running shape with an etcd of its own. Clients reach its servers in turn.
type controlPlane struct {
	*framework.Cluster
	servers []process.Process
	etcd    process.Process

	env    *framework.Environment
	failed bool
	// stop ends the balancer, and waits for that.
	stop func()
}

func (s shape) start(ctx context.Context) (_ *controlPlane, err error) {
	env, err := framework.New("bench-cluster")
	if err != nil {
		return nil, err
	}
	c := &controlPlane{env: env, failed: true, stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	var urls []string
	if s.stock > 0 {
		urls, err = c.startStock(ctx, s)
	} else {
		urls, err = c.startTripod(ctx, s)
	}
	if err == nil && len(urls) > 1 {
		err = c.balance(ctx, urls)
	}
	return c, err
}

func (c *controlPlane) startStock(ctx context.Context, s shape) (urls []string, err error) {
	first, err := c.env.StartStock(ctx, framework.StockOptions{DropIn: s.dropIn})
	if err != nil {
		return nil, err
	}
	c.Cluster, c.etcd = first.Cluster, process.Process{Service: "etcd", PID: first.Etcd.PID()}
	c.servers, urls = []process.Process{{Service: kubeAPIServer, PID: first.Process.PID()}}, []string{first.URL}
	if s.dropIn {
		c.servers[0].Service = dropIn
		children, err := childrenOf(first.Process.PID())
		c.servers = append(c.servers, children...)
		return urls, err
	}
	for range s.stock - 1 {
		another, err := first.Beside(ctx, false)
		if err != nil {
			return nil, err
		}
		c.servers, urls = append(c.servers, process.Process{Service: kubeAPIServer, PID: another.Process.PID()}), append(urls, another.URL)
	}
	return urls, nil
}

func (c *controlPlane) startTripod(ctx context.Context, s shape) (urls []string, err error) {
	etcdURL, etcd, err := startEtcd(ctx, c.env)
	if err != nil {
		return nil, err
	}
	c.etcd = etcd
	options := framework.FleetOptions{EtcdURL: etcdURL, Binaries: s.binaries}
	for _, of := range []struct {
		service string
		count   int
	}{{core, s.cores}, {extensions, s.extensions}, {aggregator, s.aggregators}} {
		for i := range of.count {
			options.Replicas = append(options.Replicas, framework.ReplicaOptions{Name: fmt.Sprintf("%s-%d", of.service, i+1)})
		}
	}
	fleet, err := c.env.StartFleet(ctx, options)
	if err != nil {
		return nil, err
	}
	c.Cluster = fleet.Cluster
	for _, one := range options.Replicas {
		replica := fleet.Replica(one.Name)
		service, _, _ := strings.Cut(one.Name, "-")
		c.servers = append(c.servers, process.Process{Service: service, PID: replica.Process().PID()})
		if service == aggregator {
			urls = append(urls, replica.URL)
		}
	}
	return urls, nil
}

// balance lets clients reach several servers at one address, and writes that address into the kubeconfig.
func (c *controlPlane) balance(ctx context.Context, urls []string) error {
	var servers []string
	for _, server := range urls {
		at, err := url.Parse(server)
		if err != nil {
			return err
		}
		servers = append(servers, at.Host)
	}
	b, err := balancer.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	b.SetServers(servers, nil)
	serving, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { b.Serve(serving) })
	c.stop = func() { stop(); done.Wait() }
	before := c.URL
	c.URL = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(b.Port()))
	kubeconfig, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		return err
	}
	return os.WriteFile(c.Kubeconfig, []byte(strings.ReplaceAll(string(kubeconfig), before, c.URL)), 0o600)
}

// close stops all processes. It keeps their logs if something failed.
func (c *controlPlane) close() error {
	err := c.env.Close(c.failed)
	c.stop()
	return err
}

// childrenOf returns the processes that a process has started, by the names of their programs.
func childrenOf(pid int) ([]process.Process, error) {
	children, err := process.Process{Service: fmt.Sprintf("process %d", pid), PID: pid}.Children()
	if err != nil {
		return nil, err
	}
	for i, child := range children {
		line, err := child.CommandLine()
		if err != nil {
			return nil, fmt.Errorf("process %d has started one that ended: %w", pid, err)
		}
		children[i].Service = strings.TrimPrefix(filepath.Base(line[0]), "tripod-")
	}
	return children, nil
}
