// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
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
	// Domain has the aggregators find backends, and extensions core, by the names core.DOMAIN and extensions.DOMAIN, whose addresses are
	// replicas. All replicas of these need an address of their own then.
	Domain string
	// Prepare may change the certificates in the directory before a replica starts.
	Prepare func(pki string) error
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
	// Env is added to the environment.
	Env []string
	// Later leaves the start to the test. The others know the address of this one nevertheless.
	Later bool
	// Address is where the replica listens, at ports that all such replicas have. It is 127.0.0.1 when empty.
	Address string
	// Wrap is a command that executes the replica, whose path and flags follow.
	Wrap []string
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
	host        string
	wrap        []string
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
		func() error { return MakeStockPKI(f.PKI) },
		func() error { return makeServicePKI(f.PKI) },
		func() (err error) { f.users, err = newUsers(filepath.Join(dir, "users"), f.PKI); return err },
		f.addReplicas,
		f.writeKubeconfig,
		func() error {
			if options.Prepare == nil {
				return nil
			}
			return options.Prepare(f.PKI)
		},
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
			dir: filepath.Join(f.DataDir, options.Name), env: slices.Concat(f.options.Env, options.Env), wrap: options.Wrap,
		}
		if f.options.Binaries != "" {
			r.binary = filepath.Join(f.options.Binaries, "tripod-"+service)
		}
		if err := mkdir(r.dir); err != nil {
			return err
		}
		if err := r.listenAt(options.Address); err != nil {
			return err
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

// The ports of replicas with an address of their own.
const (
	servingPort = 6443
	grpcPort    = 6444
	probePort   = 8080
)

// listenAt gives the replica its addresses.
func (r *Replica) listenAt(address string) error {
	ports := [3]int{servingPort, probePort, grpcPort}
	for i := range ports {
		var err error
		if address != "" {
			break
		}
		if ports[i], err = FreePort(); err != nil {
			return err
		}
	}
	r.host = cmp.Or(address, "127.0.0.1")
	r.URL = fmt.Sprintf("https://%s:%d", r.host, ports[0])
	r.ProbeURL = fmt.Sprintf("http://%s:%d", r.host, ports[1])
	if r.service != aggregator {
		r.GRPCAddress = fmt.Sprintf("%s:%d", r.host, ports[2])
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
		"--bind-address=" + r.host, "--secure-port=" + portOf(r.URL), "--probe-bind-address=" + strings.TrimPrefix(r.ProbeURL, "http://"),
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
		where := "--core-servers=" + f.list(cores, (*Replica).url)
		if f.options.Domain != "" {
			where = f.named(core)[0]
		}
		return slices.Concat(flags, f.serving(extensions), f.backend(r), []string{where, "--authorization-mode=RBAC"})
	}
	if f.options.Domain != "" {
		return slices.Concat(flags, f.serving("apiserver"), f.requestHeader(), []string{"--authorization-mode=RBAC"}, f.named(core), f.named(extensions))
	}
	return slices.Concat(flags, f.serving("apiserver"), f.requestHeader(), []string{
		"--authorization-mode=RBAC",
		"--core-servers=" + f.list(cores, (*Replica).url), "--core-grpc-servers=" + f.list(cores, (*Replica).grpcAddress),
		"--extensions-servers=" + f.list(f.names(extensions), (*Replica).url),
		"--extensions-grpc-servers=" + f.list(f.names(extensions), (*Replica).grpcAddress),
	})
}

// named returns the flags by which an aggregator finds a backend by its name.
func (f *Fleet) named(service string) []string {
	return []string{
		fmt.Sprintf("--%s-servers=dns:///%[1]s.%s:%d", service, f.options.Domain, servingPort),
		fmt.Sprintf("--%s-grpc-servers=dns:///%[1]s.%s:%d", service, f.options.Domain, grpcPort),
	}
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
	command := append(append(slices.Clone(r.wrap), r.binary), r.args...)
	r.process, err = r.environment.Start(Command{
		Name: fmt.Sprintf("%s.%d", r.Name, r.starts), Path: command[0], Args: command[1:], Env: r.env, Dir: r.dir,
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
