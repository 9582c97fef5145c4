// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/base/service/auditlog/auditfile"
	"github.com/tripod-k8s/tripod/base/storage/etcdready"
	"github.com/tripod-k8s/tripod/base/storage/etcdversion"
	"github.com/tripod-k8s/tripod/local/replicas"
	"github.com/tripod-k8s/tripod/local/supervisor"
)

const (
	// stopMargin is how much longer than its flags say a service may take to stop before it is killed.
	stopMargin = 10 * time.Second
	// etcdTimeout is how long kube-apiserver waits for etcd when it starts.
	etcdTimeout = 20 * time.Second
)

// run starts the services: the supervisor takes the place of this program, and runs them. It returns only if they cannot start, or if ctx
// has ended before.
func run(ctx context.Context, signals *supervisor.Signals, known *catalog, s *plan) error {
	program, err := replicas.Binary(supervisor.Program)
	if err != nil {
		return err
	}
	if err := checkEtcd(ctx, s); err != nil {
		return err
	}
	dir, err := newTemporary()
	if err != nil {
		return err
	}
	defer dir.remove()
	plan, err := s.supervision(known, dir)
	if err != nil {
		return err
	}
	klog.Flush()
	signals.Release()
	if ctx.Err() != nil {
		return nil
	}
	return supervisor.Exec(program, plan)
}

// supervision returns what the supervisor needs to know, and writes what the services need to dir.
func (s *plan) supervision(known *catalog, dir *temporary) (*supervisor.Plan, error) {
	store, err := certs.Open(dir.path)
	if err != nil {
		return nil, err
	}
	divided, err := s.programs()
	if err != nil {
		return nil, err
	}
	services, err := replicas.NewServices(store, divided)
	if err != nil {
		return nil, err
	}
	certificate, err := s.certificateFiles(dir.path)
	if err != nil {
		return nil, err
	}
	processes, err := s.processes(services, known, certificate, dir.path)
	if err != nil {
		return nil, err
	}
	plan := &supervisor.Plan{
		Logs:         s.logs,
		Dir:          dir.path,
		Certificates: *replicas.Trust(slices.Sorted(maps.Keys(divided))...),
		AuditSocket:  auditSocket(dir.path),
		AuditLog: auditfile.Options{
			Path: s.auditLog.Path, MaxAge: s.auditLog.MaxAge, MaxBackups: s.auditLog.MaxBackups, MaxSize: s.auditLog.MaxSize,
			Compress: s.auditLog.Compress,
		},
		Processes: processes,
	}
	plan.Lock, err = supervisor.Inherit(dir.lock)
	return plan, err
}

// checkEtcd fails if etcd does not answer for as long as kube-apiserver tries at its start. Later the services wait for etcd
// themselves. If etcd is behind an egress proxy, this process cannot reach it, and skips the check.
func checkEtcd(ctx context.Context, s *plan) error {
	if slices.ContainsFunc(s.given, func(f flagValue) bool { return f.name == "egress-selector-config-file" && hasProxyForEtcd(f.value) }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	if err := etcdready.Check(ctx, s.etcd); err != nil {
		if errors.Is(err, etcdversion.ErrTooOld) {
			return err
		}
		return fmt.Errorf("%w: look at --etcd-servers, --etcd-cafile, --etcd-certfile and --etcd-keyfile", err)
	}
	return nil
}

// hasProxyForEtcd reports whether an EgressSelectorConfiguration has one. One that cannot be read is left to the services, which say what
// is wrong with it.
func hasProxyForEtcd(file string) bool {
	behind, err := service.EtcdBehindProxy(file)
	return err != nil || behind
}

// auditSocket is where the services write the audit log.
func auditSocket(dir string) string { return filepath.Join(dir, "audit.sock") }

// processes returns the services in the order in which they start, and writes the file by which they find each other to dir.
// They stop in reverse order: clients before what they use.
func (s *plan) processes(
	services *replicas.Services, known *catalog, certificate genericoptions.CertKey, dir string,
) ([]supervisor.Process, error) {
	where := filepath.Join(dir, "backends.yaml")
	all := map[serviceName]*replicas.Replica{}
	args := map[serviceName][]string{}
	for _, name := range s.services() {
		var err error
		if all[name], err = replicas.NewReplica(string(name), string(name)); err != nil {
			return nil, err
		}
		args[name] = append(s.arguments(name, known, certificate, throughSocket(auditSocket(dir))), partitionArguments(name)...)
		if name != aggregator {
			// These stop after the aggregator, when no client is left that would have to go elsewhere first.
			args[name] = append(args[name], flagValue{"shutdown-delay-duration", "0s"}.String())
		}
	}
	url := "https://" + net.JoinHostPort(replicas.ClientAddress(s.bindAddress).String(), strconv.Itoa(s.securePort))
	if err := s.backends(all, url).Write(where); err != nil {
		return nil, err
	}
	var processes []supervisor.Process
	for _, name := range s.services() {
		p := services.Backend(all[name], where, args[name])
		switch name {
		case core:
			p = services.Core(all[core], s.securePort, where, args[core])
		case aggregator:
			p = services.Aggregator(all[aggregator], url, where, args[aggregator])
			p.StopTimeout = s.shutdownDelay + s.watchGrace
		}
		ports, err := inherit(all[name])
		if err != nil {
			return nil, err
		}
		processes = append(processes, supervisor.Process{
			Component: p.Component, Replica: p.Replica, Path: p.Path, Args: p.Args, Address: p.Address,
			Probe:       all[name].ProbeURL(),
			StopTimeout: p.StopTimeout + s.drain + stopMargin,
			Ports:       ports,
		})
	}
	return processes, nil
}

// backends returns where the services find each other. Clients reach the aggregator at url.
func (s *plan) backends(all map[serviceName]*replicas.Replica, url string) *addresses.Backends {
	backends := &addresses.Backends{
		Core:       replicas.Locate([]*replicas.Replica{all[core]}),
		Extensions: replicas.Locate([]*replicas.Replica{all[extensions]}),
		Aggregator: addresses.Replicas{Servers: []string{url}},
		Services:   map[string]addresses.Service{},
	}
	for name, groups := range s.partitions() {
		backends.Services[string(name)] = addresses.Service{Replicas: replicas.Locate([]*replicas.Replica{all[name]}), Groups: groups}
	}
	return backends
}

// inherit returns the open files that keep the ports of a replica.
func inherit(r *replicas.Replica) ([]int, error) {
	files, err := r.Files()
	if err != nil {
		return nil, err
	}
	var ports []int
	for _, file := range files {
		port, err := supervisor.Inherit(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// certificateFiles returns the files of the public certificate. If --cert-dir is empty, the certificate is only in memory, and is
// written to dir.
func (s *plan) certificateFiles(dir string) (genericoptions.CertKey, error) {
	if s.certificate.GeneratedCert == nil {
		return s.certificate.CertKey, nil
	}
	cert, key := s.certificate.GeneratedCert.CurrentCertKeyContent()
	files := genericoptions.CertKey{
		CertFile: filepath.Join(dir, s.certificate.PairName+".crt"),
		KeyFile:  filepath.Join(dir, s.certificate.PairName+".key"),
	}
	for path, content := range map[string][]byte{files.CertFile: cert, files.KeyFile: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return files, fmt.Errorf("cannot write the serving certificate: %w", err)
		}
	}
	return files, nil
}
