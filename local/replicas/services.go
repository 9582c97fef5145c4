// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/tuning/gcpace"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/services/list"
)

// Services knows how to run the services on one machine.
type Services struct {
	store    *certs.Store
	binaries map[string]string
	// additional are the names of the services that are not Tripod's own.
	additional []string
}

// NewServices finds the binaries, and creates missing certificates in store. additional are the binaries of additional API services by
// name.
func NewServices(store *certs.Store, additional map[string]string) (*Services, error) {
	if err := gcpace.Share(); err != nil {
		return nil, err
	}
	s := &Services{store: store, binaries: map[string]string{}}
	for _, name := range list.RequiredNames() {
		path, err := Binary(list.Program(name))
		if err != nil {
			return nil, err
		}
		s.binaries[name] = path
	}
	maps.Copy(s.binaries, additional)
	s.additional = slices.Sorted(maps.Keys(additional))
	return s, EnsureTrust(store, s.additional...)
}

// Core returns the process of a replica of core, which finds the aggregator by a file (see package addresses). Clients reach it through the
// aggregator at advertisePort.
func (s *Services) Core(r *Replica, advertisePort int, backends string, args []string) process.Process {
	own := append(s.serving(r), fmt.Sprintf("--advertise-port=%d", advertisePort), "--"+addresses.BackendsFileFlag+"="+backends)
	return s.process(r, r.URL(), append(own, args...))
}

// Backend returns the process of a replica of extensions or of an additional API service, which finds core and the aggregator by a file
// (see package addresses).
func (s *Services) Backend(r *Replica, backends string, args []string) process.Process {
	own := append(s.serving(r), "--"+addresses.BackendsFileFlag+"="+backends)
	return s.process(r, r.URL(), append(own, args...))
}

// Aggregator returns the process of a replica of the aggregator, which finds the other services by a file (see package addresses). Clients
// reach it at url; args has the flags for that.
func (s *Services) Aggregator(r *Replica, url, backends string, args []string) process.Process {
	own := append(s.common(r), "--"+addresses.BackendsFileFlag+"="+backends)
	return s.process(r, url, append(own, args...))
}

func (s *Services) process(r *Replica, url string, args []string) process.Process {
	path := s.binaries[r.Service]
	return process.Process{
		Component:   r.Service,
		Replica:     r.Name,
		Path:        path,
		Args:        args,
		Address:     url,
		BeforeStart: r.Release,
		Ready:       process.NewHTTPProbe(r.ProbeURL(), nil).Ready,
		Version:     BinaryVersion(path),
	}
}

// common returns the flags for the identity of a service among the services, and for its probes.
func (s *Services) common(r *Replica) []string {
	return append(TrustFlags(s.store, r.Service), "--probe-bind-address="+r.probes.Address())
}

// serving returns the flags of a service that only the other services reach.
func (s *Services) serving(r *Replica) []string {
	return append(s.common(r), ServingFlags(s.store, r.Service, r.serving.Number(), r.grpc.Address())...)
}
