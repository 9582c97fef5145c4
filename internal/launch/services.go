// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"

	"github.com/tripod-k8s/tripod/internal/pki"
	"github.com/tripod-k8s/tripod/internal/supervisor"
)

// Services are the three services of one machine, each a single replica, ready to be started.
type Services struct {
	store            *pki.Store
	binaries         map[string]string
	core, extensions *Port
	// tokens is the port on which core is asked about tokens.
	tokens *Port
	// probes are the ports on which core and extensions answer probes.
	probes map[string]*Port
}

// NewServices finds the binaries, makes the certificates that are missing in store, and takes ports for core and
// extensions, which serve on loopback only.
func NewServices(store *pki.Store) (*Services, error) {
	s := &Services{store: store, binaries: map[string]string{}, probes: map[string]*Port{}}
	for _, name := range []string{Core, Extensions, Aggregator} {
		path, err := binary("tripod-" + name)
		if err != nil {
			return nil, err
		}
		s.binaries[name] = path
	}
	if err := ensureTrust(store); err != nil {
		return nil, err
	}
	if err := s.reservePorts(); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

func (s *Services) reservePorts() (err error) {
	if s.core, err = ReservePort(); err != nil {
		return err
	}
	if s.extensions, err = ReservePort(); err != nil {
		return err
	}
	if s.tokens, err = ReservePort(); err != nil {
		return err
	}
	for _, name := range []string{Core, Extensions} {
		if s.probes[name], err = ReservePort(); err != nil {
			return err
		}
	}
	return nil
}

// Release gives back the ports of services that were not started.
func (s *Services) Release() {
	for _, port := range []*Port{s.core, s.extensions, s.tokens, s.probes[Core], s.probes[Extensions]} {
		if port != nil {
			port.Release()
		}
	}
}

// Core returns the process of core. Clients reach it by way of the aggregator at advertisePort.
func (s *Services) Core(advertisePort int, args []string) supervisor.Process {
	own := append(s.serving(Core, s.core), fmt.Sprintf("--advertise-port=%d", advertisePort), "--grpc-bind-address="+s.tokens.Address())
	return s.process(Core, []*Port{s.core, s.tokens}, append(own, args...))
}

// Extensions returns the process of extensions.
func (s *Services) Extensions(args []string) supervisor.Process {
	own := append(s.serving(Extensions, s.extensions), "--core-servers="+s.core.URL())
	return s.process(Extensions, []*Port{s.extensions}, append(own, args...))
}

// Aggregator returns the process of the aggregator, which serves at url and is asked for its readiness with probe.
func (s *Services) Aggregator(url string, probe *supervisor.HTTPProbe, args []string) supervisor.Process {
	own := append(s.identity(Aggregator),
		"--core-servers="+s.core.URL(), "--core-grpc-servers="+s.tokens.Address(), "--extensions-servers="+s.extensions.URL())
	return supervisor.Process{
		Component: Aggregator,
		Path:      s.binaries[Aggregator],
		Args:      append(own, args...),
		Address:   url,
		Ready:     probe.Ready,
		Version:   binaryVersion(s.binaries[Aggregator]),
	}
}

// process returns the process of a service that serves on the first of the ports.
func (s *Services) process(component string, ports []*Port, args []string) supervisor.Process {
	probe := s.probes[component]
	return supervisor.Process{
		Component: component,
		Path:      s.binaries[component],
		Args:      args,
		Address:   ports[0].URL(),
		BeforeStart: func() {
			for _, port := range append(ports, probe) {
				port.Release()
			}
		},
		Ready:   supervisor.NewHTTPProbe("http://"+probe.Address(), nil).Ready,
		Version: binaryVersion(s.binaries[component]),
	}
}

// identity returns the flags that tell a service who it is among the services.
func (s *Services) identity(component string) []string {
	return []string{
		"--service-ca-file=" + s.store.CertFile(serviceCA),
		"--service-cert-file=" + s.store.CertFile(component),
		"--service-key-file=" + s.store.KeyFile(component),
	}
}

// serving returns the flags of a service that only the other services reach.
func (s *Services) serving(component string, port *Port) []string {
	return append(s.identity(component),
		"--bind-address=127.0.0.1",
		"--secure-port="+port.Number(),
		"--probe-bind-address="+s.probes[component].Address(),
		"--tls-cert-file="+s.store.CertFile(component),
		"--tls-private-key-file="+s.store.KeyFile(component),
	)
}
