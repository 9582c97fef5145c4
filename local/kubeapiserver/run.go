// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/certs"
	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/auditlog"
	"github.com/tripod-k8s/tripod/internal/storage/etcdready"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
)

const (
	// stopMargin is how much longer than its flags say a service may take to stop before it is killed.
	stopMargin = 10 * time.Second
	// etcdTimeout is how long kube-apiserver waits for etcd when it starts.
	etcdTimeout = 20 * time.Second
	// renewInterval is how often to check whether the services need new certificates.
	renewInterval = 24 * time.Hour
)

// run runs the services until ctx ends or one of them cannot start.
func run(ctx context.Context, known *catalog, s *plan) error {
	if err := checkEtcd(ctx, s); err != nil {
		return err
	}
	dir, remove, err := temporaryDir()
	if err != nil {
		return err
	}
	defer remove()
	store, err := certs.Open(dir)
	if err != nil {
		return err
	}
	services, err := replicas.NewServices(store, nil)
	if err != nil {
		return err
	}
	certificate, err := s.certificateFiles(dir)
	if err != nil {
		return err
	}

	processes, err := s.processes(services, known, certificate, dir)
	if err != nil {
		return err
	}
	closeLog, err := s.startAuditLog(dir)
	if err != nil {
		return err
	}
	defer closeLog()
	endNotifications, err := notifyOnceAllServe(dir, processes)
	if err != nil {
		return err
	}
	defer endNotifications()
	group := process.NewGroup(logEvent)
	defer group.Stop()
	output := process.NewStream(os.Stdout, os.Stderr)
	for _, process := range processes {
		process.Output = output.Output()
		process.StopTimeout += s.drain + stopMargin
		// kube-apiserver exits if it cannot start. Its supervisor decides what to do then.
		process.FailedStarts = 1
		process.Version = func(context.Context) string { return "" } // nobody asks for it
		group.Start(process)
	}
	return supervise(ctx, group, services)
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

// startAuditLog starts the writer of the audit log, if one is configured. Call end once the services have stopped.
func (s *plan) startAuditLog(dir string) (end func(), err error) {
	if s.auditLog.Path == "" {
		return func() {}, nil
	}
	writer, err := auditlog.Start(auditSocket(dir), &s.auditLog, os.Stdout)
	if err != nil {
		return nil, err
	}
	return func() {
		if err := writer.Close(); err != nil {
			klog.ErrorS(err, "Cannot end the audit log", "path", s.auditLog.Path)
		}
	}, nil
}

// processes returns the services in the order in which they start, and writes the file by which they find each other to dir.
// They stop in reverse order: clients before what they use.
func (s *plan) processes(
	services *replicas.Services, known *catalog, certificate genericoptions.CertKey, dir string,
) ([]process.Process, error) {
	where := filepath.Join(dir, "backends.yaml")
	all := map[serviceName]*replicas.Replica{}
	args := map[serviceName][]string{}
	for _, name := range []serviceName{core, extensions, aggregator} {
		var err error
		if all[name], err = replicas.NewReplica(string(name), string(name)); err != nil {
			return nil, err
		}
		args[name] = s.arguments(name, known, certificate, throughSocket(auditSocket(dir)))
		if name != aggregator {
			// These stop after the aggregator, when no client is left that would have to go elsewhere first.
			args[name] = append(args[name], flagValue{"shutdown-delay-duration", "0s"}.String())
		}
	}
	url := "https://" + net.JoinHostPort(replicas.ClientAddress(s.bindAddress).String(), strconv.Itoa(s.securePort))
	backends := addresses.Backends{
		Core:       replicas.Locate([]*replicas.Replica{all[core]}),
		Extensions: replicas.Locate([]*replicas.Replica{all[extensions]}),
		Aggregator: addresses.Replicas{Servers: []string{url}},
	}
	if err := backends.Write(where); err != nil {
		return nil, err
	}
	public := services.Aggregator(all[aggregator], url, where, args[aggregator])
	public.StopTimeout = s.shutdownDelay + s.watchGrace
	return []process.Process{
		services.Core(all[core], s.securePort, where, args[core]),
		services.Backend(all[extensions], where, args[extensions]),
		public,
	}, nil
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

// supervise keeps the certificates of the services valid. It returns when ctx ends or a service is given up.
func supervise(ctx context.Context, group *process.Group, services *replicas.Services) error {
	renewal := time.NewTicker(renewInterval)
	defer renewal.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-group.Failed():
			return err
		case <-renewal.C:
			if err := services.Renew(); err != nil {
				klog.ErrorS(err, "Cannot renew the certificates of the services")
			}
		}
	}
}

func logEvent(e process.Event) {
	klog.InfoS("Service "+e.String(), "service", e.Component)
}
