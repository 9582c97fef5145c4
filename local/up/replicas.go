// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/local/etcd/embedded"
	"github.com/tripod-k8s/tripod/local/names"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
)

const (
	etcd = names.Etcd
	// stopTimeout is longer than a service takes to end its watches and stop.
	stopTimeout = 30 * time.Second
	// noticeTime is longer than services take to reload the backends file.
	noticeTime = 1500 * time.Millisecond
)

// process returns how to run a replica.
func (i *instance) process(r *replicas.Replica, number int) (process.Process, error) {
	var p process.Process
	switch r.Service {
	case replicas.Core:
		p = i.services.Core(r, i.args.port, i.dataDir.backends(), i.args.core(r.Name))
	case replicas.Extensions:
		p = i.services.Backend(r, i.dataDir.backends(), i.args.extensions(r.Name))
	case replicas.Aggregator:
		address, port, err := i.place(r, number)
		if err != nil {
			return p, err
		}
		p = i.services.Aggregator(r, clientURL(address, port), i.dataDir.backends(), i.args.aggregator(r.Name, address, port))
	default:
		if _, ok := addresses.PartitionOf(r.Service); ok {
			p = i.services.Backend(r, i.dataDir.backends(), i.args.partition(r.Service, r.Name))
			break
		}
		p = i.services.Backend(r, i.dataDir.backends(), i.args.additionalService(r.Service, r.Name))
		p.Ready = explain(p.Ready)
		p.FailedStarts = math.MaxInt // its author may be about to repair it
	}
	if !slices.Contains(i.options.additionalServices(), r.Service) {
		p.Check = func() error { return i.options.checkProgram(p.Path) }
	}
	p.Output = process.NewLogFile(i.dataDir.log(r.Name))
	p.StopTimeout = stopTimeout
	return p, nil
}

// place returns where an aggregator serves.
func (i *instance) place(r *replicas.Replica, number int) (address net.IP, port string, err error) {
	if i.balancer == nil {
		if taken, err := tryPorts(i.options.BindAddress, i.args.port+number, 1); err != nil {
			return nil, "", cannotListen(i.options.BindAddress, taken, err)
		}
	}
	address, port = i.aggregatorAt(r, number)
	return address, port, nil
}

func (i *instance) aggregatorAt(r *replicas.Replica, number int) (address net.IP, port string) {
	if i.balancer != nil {
		return net.IPv4(127, 0, 0, 1), r.Port()
	}
	return i.options.BindAddress, strconv.Itoa(i.args.port + number)
}

// aggregators returns where the backends find the aggregators.
func (i *instance) aggregators() addresses.Replicas {
	var located addresses.Replicas
	// The first ones are in use.
	for number, r := range i.fleet.Used(replicas.Aggregator) {
		located.Servers = append(located.Servers, clientURL(i.aggregatorAt(r, number)))
	}
	return located
}

// use writes which replicas get requests.
func (i *instance) use() error {
	i.balance()
	backends := addresses.Backends{
		Core:       replicas.Locate(i.fleet.Used(replicas.Core)),
		Extensions: replicas.Locate(i.fleet.Used(replicas.Extensions)),
		Aggregator: i.aggregators(),
	}
	divided := i.options.divided()
	for _, name := range i.options.beside() {
		if backends.Services == nil {
			backends.Services = map[string]addresses.Service{}
		}
		backends.Services[name] = addresses.Service{Replicas: replicas.Locate(i.fleet.Used(name)), Groups: divided[name]}
	}
	return backends.Write(i.dataDir.backends())
}

// balance gives the balancer, if it runs, the addresses of the aggregators.
func (i *instance) balance() {
	if i.balancer == nil {
		return
	}
	ready, unready := i.fleet.Ready(replicas.Aggregator)
	i.balancer.SetServers(hostPorts(ready), hostPorts(unready))
}

func hostPorts(of []*replicas.Replica) []string {
	var list []string
	for _, r := range of {
		list = append(list, strings.TrimPrefix(r.URL(), "https://"))
	}
	return list
}

// scale changes the number of replicas of a service, and reports progress until that is done.
func (i *instance) scale(ctx context.Context, wanted scaleRequest, progress func(line string)) error {
	if services := i.options.services(); !slices.Contains(services, wanted.Service) {
		return fmt.Errorf("there is no service %q: give one of %s", wanted.Service, strings.Join(services, ", "))
	}
	if wanted.Replicas < 1 || wanted.Replicas > maxReplicas {
		return fmt.Errorf("%d replicas are not between 1 and %d", wanted.Replicas, maxReplicas)
	}
	if !i.started.Load() {
		return fmt.Errorf("the instance in %s is not ready yet", i.dataDir)
	}
	if !i.listen(progress) {
		return replicas.ErrBusy
	}
	defer i.listenNoMore()
	return i.fleet.Scale(ctx, wanted.Service, wanted.Replicas)
}

func (i *instance) embeddedEtcd() (process.Process, error) {
	self, err := replicas.Self()
	if err != nil {
		return process.Process{}, err
	}
	if i.args.etcd, err = replicas.ReservePort(); err != nil {
		return process.Process{}, err
	}
	asClient, err := replicas.ClientTLS(i.store, etcdCA, etcdClient)
	if err != nil {
		return process.Process{}, err
	}
	const name = etcd + "-0"
	return process.Process{
		Component:   etcd,
		Replica:     name,
		Path:        self,
		Args:        i.args.embeddedEtcd(i.dataDir),
		Output:      process.NewLogFile(i.dataDir.log(name)),
		Address:     i.args.etcd.URL(),
		BeforeStart: i.args.etcd.Release,
		Ready:       process.NewHTTPProbe(i.args.etcd.URL(), asClient).Ready,
		Version:     func(context.Context) string { return embedded.Version },
	}, nil
}
