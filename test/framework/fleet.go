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
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// The names of the services in their binaries and certificates.
const (
	core       = "core"
	extensions = "extensions"
	aggregator = "aggregator"
)

// services are those of every Tripod. Others are additional API services behind the aggregator.
var services = []string{core, extensions, aggregator}

// FleetOptions are the options of StartFleet.
type FleetOptions struct {
	// EtcdURL is the URL of the etcd. If it is empty, the fleet starts an etcd.
	EtcdURL string
	// Env is added to the environment of each replica.
	Env []string
	// Binaries is the directory of the binaries of the services, by default bin/.
	Binaries string
	// Domain makes aggregators find the replicas of backends, and extensions those of core, by the DNS names core.DOMAIN and extensions.DOMAIN.
	// Each of these replicas then needs an Address.
	Domain string
	// Prepare may change the certificates in the directory before a replica starts.
	Prepare func(pki string) error
	// Replicas start in this order. The default is one replica of each service.
	Replicas []ReplicaOptions
}

// ReplicaOptions are the options of one replica.
type ReplicaOptions struct {
	// Name is the service and a number, such as core-1.
	Name string
	// Binary is the path of the program of this replica. The default is that of the service in FleetOptions.Binaries, or in bin/.
	Binary string
	// EtcdURL is the URL of the etcd of this replica, by default that of the fleet.
	EtcdURL string
	// Cores are the names of the replicas of core that this replica uses, in this order, by default all.
	Cores []string
	// Args are additional flags.
	Args []string
	// Env is added to the environment.
	Env []string
	// Later leaves the start to the test. Other replicas get the address of this one in their flags nevertheless.
	Later bool
	// Address is the IP address on which the replica listens, at fixed ports. By default, it listens on 127.0.0.1 at free ports.
	Address string
	// Wrap is a command that runs the replica. The path and the flags of the replica are appended.
	Wrap []string
}

// Fleet is Tripod with any number of replicas of each service. Unlike `tripod up`, it does not restart replicas.
type Fleet struct {
	// Cluster uses the first replica of the aggregator.
	*Cluster
	// EtcdURL is the URL of the etcd.
	EtcdURL string

	environment *Environment
	options     FleetOptions
	replicas    map[string]*Replica
}

// Replica is one process of a [Fleet].
type Replica struct {
	// Name is the service and a number, such as core-1.
	Name string
	// URL is the address for requests, ProbeURL that for probes. GRPCAddress is the host:port at which core and extensions serve aggregators.
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

// NewFleet starts a fleet that ends with the test.
func NewFleet(t testing.TB, options FleetOptions) *Fleet {
	t.Helper()
	fleet, err := ForTest(t).StartFleet(t.Context(), options)
	require.NoError(t, err)
	return fleet
}

// StartFleet starts the replicas and returns when all are ready.
func (e *Environment) StartFleet(ctx context.Context, options FleetOptions) (*Fleet, error) {
	dir, err := e.newDir("fleet")
	if err != nil {
		return nil, err
	}
	if options.EtcdURL == "" {
		if options.EtcdURL, err = e.StartEtcd(ctx, dir); err != nil {
			return nil, err
		}
	}
	if len(options.Replicas) == 0 {
		options.Replicas = []ReplicaOptions{{Name: "core-0"}, {Name: "extensions-0"}, {Name: "aggregator-0"}}
	}
	f := &Fleet{
		Cluster: &Cluster{Name: "fleet", DataDir: dir, PKI: filepath.Join(dir, "pki"), Kubeconfig: filepath.Join(dir, "kubeconfig")},
		EtcdURL: options.EtcdURL, environment: e, options: options, replicas: map[string]*Replica{},
	}
	f.etcd = plainEtcd(f.EtcdURL)
	if err := errorsOf(
		func() error { return MakeStockPKI(f.PKI) },
		func() error { return makeServicePKI(f.PKI, options.services()) },
		func() (err error) { f.users, err = newUsers(filepath.Join(dir, "users"), f.PKI); return err },
		f.addReplicas,
		func() error { return f.writeKubeconfig(f.Kubeconfig, f.Admin()) },
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

// Through returns a cluster whose clients use one replica of the aggregator.
func (f *Fleet) Through(aggregator string) *Cluster {
	cluster := *f.Cluster
	cluster.URL = f.replicas[aggregator].URL
	return &cluster
}

// addReplicas chooses the ports and flags of all replicas.
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
		if options.Binary != "" {
			r.binary = options.Binary
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
		r.args = f.flags(r, options)
		if r.service == aggregator {
			r.args = append(r.args, aggregatorFlags()...)
		}
		r.args = append(r.args, options.Args...)
	}
	return nil
}

// The ports of replicas with an Address.
const (
	servingPort = 6443
	grpcPort    = 6444
	probePort   = 8080
)

// listenAt chooses the addresses of the replica.
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
	flags := []string{
		"--replica=" + r.Name, "--etcd-servers=" + cmp.Or(options.EtcdURL, f.EtcdURL),
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
	case aggregator:
	default:
		where := "--core-servers=" + f.list(cores, (*Replica).url)
		if f.options.Domain != "" {
			where = f.named(core)[0]
		}
		flags = slices.Concat(flags, f.serving(r.service), f.backend(r), []string{where})
		if r.service == extensions {
			flags = append(flags, "--authorization-mode=RBAC")
		}
		return flags
	}
	if f.options.Domain != "" {
		return slices.Concat(flags, f.serving("apiserver"), f.requestHeader(), []string{"--authorization-mode=RBAC"}, f.named(core), f.named(extensions))
	}
	for _, service := range f.options.services() {
		if slices.Contains(services, service) {
			continue
		}
		names := f.names(service)
		flags = append(flags, "--backend="+service+"="+f.list(names, (*Replica).url), "--backend-grpc="+service+"="+f.list(names, (*Replica).grpcAddress))
	}
	return slices.Concat(flags, f.serving("apiserver"), f.requestHeader(), []string{
		"--authorization-mode=RBAC",
		"--core-servers=" + f.list(cores, (*Replica).url), "--core-grpc-servers=" + f.list(cores, (*Replica).grpcAddress),
		"--extensions-servers=" + f.list(f.names(extensions), (*Replica).url),
		"--extensions-grpc-servers=" + f.list(f.names(extensions), (*Replica).grpcAddress),
	})
}

// named returns the flags of an aggregator that finds the replicas of a service by DNS.
func (f *Fleet) named(service string) []string {
	return []string{
		fmt.Sprintf("--%s-servers=dns:///%[1]s.%s:%d", service, f.options.Domain, servingPort),
		fmt.Sprintf("--%s-grpc-servers=dns:///%[1]s.%s:%d", service, f.options.Domain, grpcPort),
	}
}

// backend returns the flags of all services but the aggregator.
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

// Start starts the process. Addresses and flags are the same at each start; each has a log of its own.
func (r *Replica) Start() error {
	var err error
	r.starts++
	command := append(append(slices.Clone(r.wrap), r.binary), r.args...)
	r.process, err = r.environment.Start(Command{
		Name: fmt.Sprintf("%s.%d", r.Name, r.starts), Path: command[0], Args: command[1:], Env: r.env, Dir: r.dir,
	})
	return err
}

// Process returns the process of the last start.
func (r *Replica) Process() *Process { return r.process }

// WaitReady returns when /readyz of the replica is ok.
func (r *Replica) WaitReady(ctx context.Context) error {
	return r.process.until(ctx, r.Name+" is ready", httpOK(http.DefaultClient, r.ProbeURL+"/readyz"))
}

// Stop stops the process gracefully, and waits for its end.
func (r *Replica) Stop() error { return r.process.Stop() }

// Kill ends the process by SIGKILL.
func (r *Replica) Kill() error {
	if err := r.process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("cannot kill %s: %w", r.Name, err)
	}
	<-r.process.Done()
	return nil
}

// Pause stops the process until Resume (Process.Pause).
func (r *Replica) Pause() error {
	if err := r.process.Pause(); err != nil {
		return fmt.Errorf("cannot pause %s: %w", r.Name, err)
	}
	return nil
}

// Resume continues the process after Pause.
func (r *Replica) Resume() error {
	if err := r.process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("cannot resume %s: %w", r.Name, err)
	}
	return nil
}

// services returns the names of all services.
func (o *FleetOptions) services() []string {
	all := slices.Clone(services)
	for _, replica := range o.Replicas {
		if service, _, _ := strings.Cut(replica.Name, "-"); !slices.Contains(all, service) {
			all = append(all, service)
		}
	}
	return all
}

// makeServicePKI creates the certificates by which services recognise each other.
func makeServicePKI(dir string, services []string) error {
	store, err := certs.Open(dir)
	if err != nil {
		return err
	}
	ca, err := store.Authority("service-ca", "tripod-service-ca")
	if err != nil {
		return err
	}
	for _, service := range services {
		if _, err := ca.Ensure(service, certs.Leaf{
			CommonName: trust.UserOf(service),
			DNSNames:   []string{"localhost", trust.ServerName(service)},
			IPs:        []net.IP{net.IPv4(127, 0, 0, 1)},
			Server:     true, Client: true,
		}); err != nil {
			return err
		}
	}
	return nil
}

func portOf(url string) string { return url[strings.LastIndex(url, ":")+1:] }
