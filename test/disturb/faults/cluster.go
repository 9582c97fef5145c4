// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tripod-k8s/tripod/local/balancer"
	"github.com/tripod-k8s/tripod/test/framework"
)

// etcd is the name that all members of etcd share.
const etcd = "etcd"

// restartAfter is how long a process that ended on its own stays away. The first time, a kubelet restarts it at once.
const restartAfter = time.Second

// replica is one process of a cluster.
type replica interface {
	Start() error
	Kill() error
	Pause() error
	Resume() error
	Process() *framework.Process
}

// cluster is Tripod, or kube-apiservers, on an etcd. Clients reach it through a TCP load balancer, which sends new connections to ready
// servers.
type cluster struct {
	side     side
	machine  *machine
	pki      string
	url      string
	replicas map[string]replica
	// fronts are the replicas that clients reach, and urls their addresses.
	fronts []string
	urls   map[string]string
	// roles maps a name in faults to replicas whose own names differ between sides, or change.
	roles map[string][]string
	names *names // names of backends, or nil

	environment *framework.Environment
	balancer    *balancer.Balancer
	// administrator, user (with a certificate) and anonymous (without one) also reach fronts without the balancer. direct is an administrator
	// with a short timeout. reconnections make clients read their certificates again.
	administrator, user, anonymous, direct *http.Client
	reconnections                          []func() error
	// load is the load during the fault. distrusted is when certificates of an old authority became invalid.
	load       *load
	distrusted time.Time

	stop    context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// held are the replicas that supervise must not restart. restarts counts how often it restarted one.
	held     map[string]bool
	restarts int
	// clocks has the processes whose clock was moved.
	clocks map[string]*clock
	// unready are the fronts that are not ready.
	unready map[string]bool
}

// startCluster starts the cluster of a side.
func startCluster(ctx context.Context, s side) (c *cluster, err error) {
	environment, err := framework.New("faults-" + s.name)
	if err != nil {
		return nil, err
	}
	c = &cluster{
		side: s, environment: environment, machine: newMachine(ctx, environment.Dir), pki: filepath.Join(environment.Dir, "pki"),
		replicas: map[string]replica{}, urls: map[string]string{}, held: map[string]bool{}, unready: map[string]bool{}, clocks: map[string]*clock{},
		roles: map[string][]string{},
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	start := c.startTripod
	if s.stock {
		start = c.startStock
	}
	for _, step := range []func(context.Context) error{c.startEtcd, start, c.connect} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, c.close(true))
		}
	}
	c.running.Go(func() { c.balancer.Serve(running) })
	c.running.Go(func() { c.check(running) })
	for name := range c.replicas {
		c.running.Go(func() { c.supervise(running, name) })
	}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.close(true))
	}
	return c, nil
}

// close ends all processes. If something failed, it keeps the logs.
func (c *cluster) close(failed bool) error {
	c.stop()
	c.running.Wait()
	for _, r := range c.replicas {
		if r.Process() != nil {
			_ = r.Resume() // the process may have ended
		}
	}
	var errs []error
	if c.names != nil {
		errs = append(errs, c.names.close())
	}
	// The stored data are not needed any more.
	for _, r := range c.replicas {
		if p := r.Process(); p != nil {
			_ = p.Signal(syscall.SIGKILL) // the process may have ended
			<-p.Done()
		}
	}
	c.machine.removeDisks(context.Background())
	errs = append(errs, c.environment.Close(failed))
	c.machine.close()
	return errors.Join(errs...)
}

// number returns the names of all replicas of these services, and sets the fronts.
func (c *cluster) number(services ...string) (replicas []string) {
	for _, service := range services {
		for i := range c.side.replicas {
			replicas = append(replicas, fmt.Sprintf("%s-%d", service, i))
		}
	}
	return replicas
}

// setFronts sets which replicas clients reach.
func (c *cluster) setFronts(service string) {
	c.fronts = c.number(service)
	for i := range c.fronts {
		c.roles[fmt.Sprintf("front-%d", i)] = c.fronts[i : i+1]
	}
}

// resolve replaces the names of roles by those of replicas.
func (c *cluster) resolve(names []string) (replicas []string) {
	for _, name := range names {
		if role := c.roles[name]; role != nil {
			replicas = append(replicas, role...)
		} else {
			replicas = append(replicas, name)
		}
	}
	return replicas
}

func (c *cluster) startTripod(ctx context.Context) error {
	c.setFronts("aggregator")
	services := append(c.number("core", "extensions"), c.fronts...)
	options := framework.FleetOptions{EtcdURL: c.etcdURLs(), Prepare: prepareCertificates}
	if c.machine.noNetwork == "" {
		var err error
		if c.names, err = serveNames(ctx, c.machine.address(gateway)); err != nil {
			c.machine.noNetwork = err.Error()
		} else {
			options.Domain = domain
		}
	}
	for _, name := range services {
		h, err := c.machine.host(ctx, name)
		if err != nil {
			return err
		}
		options.Replicas = append(options.Replicas, framework.ReplicaOptions{Name: name, Address: h.address, Wrap: h.wrap()})
	}
	c.tellTheTruth()
	fleet, err := c.environment.StartFleet(ctx, options)
	if err != nil {
		return err
	}
	c.pki = fleet.PKI
	for _, name := range services {
		c.replicas[name] = fleet.Replica(name)
	}
	for _, name := range c.fronts {
		c.urls[name] = fleet.Replica(name).URL
	}
	return nil
}

// tellTheTruth makes DNS answer with the replicas of each backend.
func (c *cluster) tellTheTruth() {
	if c.names == nil {
		return
	}
	c.names.answer(true)
	for _, service := range []string{"core", "extensions"} {
		var addresses []string
		for _, name := range c.number(service) {
			addresses = append(addresses, c.machine.hosts[name].address)
		}
		c.names.set(service, addresses...)
	}
}

func (c *cluster) startStock(ctx context.Context) error {
	c.setFronts("kube-apiserver")
	if err := framework.MakeStockPKI(c.pki); err != nil {
		return err
	}
	if err := prepareCertificates(c.pki); err != nil {
		return err
	}
	const port = 6443
	for _, name := range c.fronts {
		h, err := c.machine.host(ctx, name)
		if err != nil {
			return err
		}
		c.urls[name] = fmt.Sprintf("https://%s:%d", h.address, port)
		flags := append(framework.StockFlags(c.pki, c.etcdURLs(), h.address, port), "--endpoint-reconciler-type=none")
		if _, err := c.program(h, name, "test-assets/kube-apiserver", flags...); err != nil {
			return err
		}
	}
	return nil
}

// connect lets clients connect, once all servers are ready.
func (c *cluster) connect(ctx context.Context) (err error) {
	if c.balancer, err = balancer.Listen("127.0.0.1:0"); err != nil {
		return err
	}
	c.url = fmt.Sprintf("https://127.0.0.1:%d", c.balancer.Port())
	if err := c.makeClients(); err != nil {
		return err
	}
	for _, name := range c.fronts {
		if err := framework.Poll(ctx, name+" is ready", ok(c.direct, c.urls[name]+"/readyz")); err != nil {
			return err
		}
	}
	c.balance()
	return nil
}

// check asks the fronts whether they are ready, like a load balancer.
func (c *cluster) check(ctx context.Context) {
	var checking sync.WaitGroup
	defer checking.Wait()
	for _, name := range c.fronts {
		checking.Go(func() {
			for tick := time.NewTicker(200 * time.Millisecond); ; {
				select {
				case <-ctx.Done():
					tick.Stop()
					return
				case <-tick.C:
				}
				err := ok(c.direct, c.urls[name]+"/readyz")(ctx)
				c.mu.Lock()
				changed := c.unready[name] != (err != nil)
				c.unready[name] = err != nil
				c.mu.Unlock()
				if changed {
					c.balance()
				}
			}
		})
	}
}

// balance gives the load balancer the fronts that are ready.
func (c *cluster) balance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ready, unready []string
	for _, name := range c.fronts {
		address := strings.TrimPrefix(c.urls[name], "https://")
		if c.unready[name] {
			unready = append(unready, address)
		} else {
			ready = append(ready, address)
		}
	}
	c.balancer.SetServers(ready, unready)
}

// all returns the sorted names of all replicas.
func (c *cluster) all() []string {
	var all []string
	for name := range c.replicas {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// ok returns a condition that holds while a URL answers 200.
func ok(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close() //nolint:errcheck // only the status counts
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %w: %s", url, errNotReady, resp.Status)
		}
		return nil
	}
}

// errNotReady means that a server reports that it is not ready.
var errNotReady = errors.New("not ready")
