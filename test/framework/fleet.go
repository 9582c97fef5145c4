// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/local/certs"
)

// The services, as their binaries and certificates are called.
const (
	core       = "core"
	extensions = "extensions"
	aggregator = "aggregator"
)

// serviceUsers are the users that the services' certificates name.
var serviceUsers = map[string]string{
	core: trust.Core, extensions: trust.Extensions, aggregator: trust.Aggregator,
}

// FleetOptions says which replicas to start.
type FleetOptions struct {
	// EtcdURL is where an etcd listens. Every replica uses it that is not told otherwise.
	EtcdURL string
	// Env is added to the environment of every replica.
	Env []string
	// Binaries is the directory with the binaries of the services. It is bin/ when empty.
	Binaries string
	// Replicas are started in this order.
	Replicas []ReplicaOptions
}

// ReplicaOptions says how to start one replica of a service.
type ReplicaOptions struct {
	// Name is the service and a number, such as core-1.
	Name string
	// EtcdURL is where this replica finds the etcd, when not where the others do.
	EtcdURL string
	// Cores are the names of the replicas of core that this one asks, in this order. All, when empty.
	Cores []string
	// Args are further flags.
	Args []string
	// Later leaves the start to the test. The others know the address of this one nevertheless.
	Later bool
}

// Fleet is Tripod with as many replicas of each service as a test wants. Unlike `tripod up` it does not restart what
// stops.
type Fleet struct {
	// Cluster is reached through the first replica of the aggregator.
	*Cluster

	environment *Environment
	options     FleetOptions
	replicas    map[string]*Replica
}

// Replica is one process of a [Fleet].
type Replica struct {
	// Name is the service and a number, such as core-1.
	Name string
	// URL is where it serves, ProbeURL where it serves probes, and GRPCAddress where core and extensions serve aggregators.
	URL, ProbeURL, GRPCAddress string

	environment *Environment
	service     string
	binary, dir string
	args, env   []string
	starts      int
	process     *Process
}

// StartFleet starts the replicas and returns when all are ready.
func (e *Environment) StartFleet(ctx context.Context, options FleetOptions) (*Fleet, error) {
	dir, err := e.newDir("fleet")
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		Cluster:     &Cluster{Name: "fleet", DataDir: dir, PKI: filepath.Join(dir, "pki"), Kubeconfig: filepath.Join(dir, "kubeconfig")},
		environment: e, options: options, replicas: map[string]*Replica{},
	}
	f.etcd = plainEtcd(options.EtcdURL)
	if err := errorsOf(
		func() error { return makeStockPKI(f.PKI) },
		func() error { return makeServicePKI(f.PKI) },
		func() (err error) { f.users, err = newUsers(filepath.Join(dir, "users"), f.PKI); return err },
		f.addReplicas,
		f.writeKubeconfig,
	); err != nil {
		return nil, err
	}
	now := slices.DeleteFunc(slices.Clone(options.Replicas), func(replica ReplicaOptions) bool { return replica.Later })
	for _, replica := range now {
		if err := f.replicas[replica.Name].Start(); err != nil {
			return nil, err
		}
	}
	for _, replica := range now {
		if err := f.replicas[replica.Name].WaitReady(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// errorsOf calls steps until one fails.
func errorsOf(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Replica returns a replica by its name.
func (f *Fleet) Replica(name string) *Replica { return f.replicas[name] }

// Through returns the cluster as it is reached through a replica of the aggregator.
func (f *Fleet) Through(aggregator string) *Cluster {
	cluster := *f.Cluster
	cluster.URL = f.replicas[aggregator].URL
	return &cluster
}

// addReplicas gives every replica its ports and flags.
func (f *Fleet) addReplicas() error {
	for _, options := range f.options.Replicas {
		service, _, _ := strings.Cut(options.Name, "-")
		r := &Replica{
			Name: options.Name, environment: f.environment, service: service, binary: f.environment.Binary("tripod-" + service),
			dir: filepath.Join(f.DataDir, options.Name), env: f.options.Env,
		}
		if f.options.Binaries != "" {
			r.binary = filepath.Join(f.options.Binaries, "tripod-"+service)
		}
		if err := mkdir(r.dir); err != nil {
			return err
		}
		var ports [3]int
		for i := range ports {
			var err error
			if ports[i], err = FreePort(); err != nil {
				return err
			}
		}
		r.URL = fmt.Sprintf("https://127.0.0.1:%d", ports[0])
		r.ProbeURL = fmt.Sprintf("http://127.0.0.1:%d", ports[1])
		if service != aggregator {
			r.GRPCAddress = fmt.Sprintf("127.0.0.1:%d", ports[2])
		}
		if service == aggregator && f.URL == "" {
			f.URL = r.URL
		}
		f.replicas[options.Name] = r
	}
	for _, options := range f.options.Replicas {
		r := f.replicas[options.Name]
		r.args = append(f.flags(r, options), options.Args...)
	}
	return nil
}

func (f *Fleet) flags(r *Replica, options ReplicaOptions) []string {
	etcd := f.options.EtcdURL
	if options.EtcdURL != "" {
		etcd = options.EtcdURL
	}
	flags := []string{
		"--replica=" + r.Name, "--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1", "--secure-port=" + portOf(r.URL), "--probe-bind-address=" + strings.TrimPrefix(r.ProbeURL, "http://"),
		"--service-ca-file=" + f.file("service-ca.crt"),
		"--service-cert-file=" + f.file(r.service+".crt"), "--service-key-file=" + f.file(r.service+".key"),
	}
	cores := options.Cores
	if len(cores) == 0 {
		cores = f.names(core)
	}
	switch r.service {
	case core:
		return slices.Concat(flags, f.serving(core), f.requestHeader(), f.coreFlags(), f.backend(r))
	case extensions:
		return slices.Concat(flags, f.serving(extensions), f.backend(r), []string{
			"--core-servers=" + f.list(cores, (*Replica).url), "--authorization-mode=RBAC",
		})
	}
	return slices.Concat(flags, f.serving("apiserver"), f.requestHeader(), []string{
		"--authorization-mode=RBAC",
		"--core-servers=" + f.list(cores, (*Replica).url), "--core-grpc-servers=" + f.list(cores, (*Replica).grpcAddress),
		"--extensions-servers=" + f.list(f.names(extensions), (*Replica).url),
		"--extensions-grpc-servers=" + f.list(f.names(extensions), (*Replica).grpcAddress),
	})
}

// backend returns the flags of a service that is behind the aggregator.
func (f *Fleet) backend(r *Replica) []string {
	flags := []string{"--grpc-bind-address=" + r.GRPCAddress}
	if aggregators := f.names(aggregator); len(aggregators) > 0 {
		flags = append(flags, "--aggregator-servers="+f.list(aggregators, (*Replica).url))
	}
	return flags
}

func (f *Fleet) coreFlags() []string {
	return []string{
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + f.file("sa.pub"),
		"--service-account-signing-key-file=" + f.file("sa.key"),
	}
}

func (f *Fleet) serving(certificate string) []string {
	return []string{"--tls-cert-file=" + f.file(certificate+".crt"), "--tls-private-key-file=" + f.file(certificate+".key")}
}

func (f *Fleet) requestHeader() []string {
	return []string{
		"--client-ca-file=" + f.file("ca.crt"),
		"--requestheader-client-ca-file=" + f.file("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + f.file("front-proxy-client.crt"),
		"--proxy-client-key-file=" + f.file("front-proxy-client.key"),
	}
}

func (f *Fleet) file(name string) string { return filepath.Join(f.PKI, name) }

// names returns the names of the replicas of a service.
func (f *Fleet) names(service string) []string {
	var names []string
	for _, options := range f.options.Replicas {
		if f.replicas[options.Name].service == service {
			names = append(names, options.Name)
		}
	}
	return names
}

func (f *Fleet) list(names []string, address func(*Replica) string) string {
	addresses := make([]string, 0, len(names))
	for _, name := range names {
		addresses = append(addresses, address(f.replicas[name]))
	}
	return strings.Join(addresses, ",")
}

func (r *Replica) url() string         { return r.URL }
func (r *Replica) grpcAddress() string { return r.GRPCAddress }

// Start starts the process, with the addresses and flags that it always has. Each start has a log of its own.
func (r *Replica) Start() error {
	var err error
	r.starts++
	r.process, err = r.environment.Start(Command{
		Name: fmt.Sprintf("%s.%d", r.Name, r.starts), Path: r.binary, Args: r.args, Env: r.env, Dir: r.dir,
	})
	return err
}

// Process returns the process that was started last.
func (r *Replica) Process() *Process { return r.process }

// WaitReady returns when the replica says that it is ready.
func (r *Replica) WaitReady(ctx context.Context) error {
	return r.process.until(ctx, r.Name+" is ready", httpOK(http.DefaultClient, r.ProbeURL+"/readyz"))
}

// Stop has the process stop in order, and returns when it has.
func (r *Replica) Stop() error { return r.process.Stop() }

// Kill ends the process as kill -9 does.
func (r *Replica) Kill() error {
	if err := r.process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("cannot kill %s: %w", r.Name, err)
	}
	<-r.process.Done()
	return nil
}

// Pause has the process do nothing until Resume.
func (r *Replica) Pause() error { return r.signal(syscall.SIGSTOP) }

// Resume has the process go on after Pause.
func (r *Replica) Resume() error { return r.signal(syscall.SIGCONT) }

func (r *Replica) signal(signal syscall.Signal) error {
	if err := r.process.Signal(signal); err != nil {
		return fmt.Errorf("cannot send %s to %s: %w", signal, r.Name, err)
	}
	return nil
}

// makeServicePKI makes the certificates by which the services know each other.
func makeServicePKI(dir string) error {
	store, err := certs.Open(dir)
	if err != nil {
		return err
	}
	ca, err := store.Authority("service-ca", "tripod-service-ca")
	if err != nil {
		return err
	}
	for service, user := range serviceUsers {
		if _, err := ca.Ensure(service, certs.Leaf{
			CommonName: user,
			DNSNames:   []string{"localhost", service + ".tripod-system.svc"},
			IPs:        []net.IP{net.IPv4(127, 0, 0, 1)},
			Server:     true, Client: true,
		}); err != nil {
			return err
		}
	}
	return nil
}

func portOf(url string) string { return url[strings.LastIndex(url, ":")+1:] }
