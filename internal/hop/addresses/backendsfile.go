// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/internal/service/atomicfile"
)

// Backends says where the replicas of both backends are, and those of the aggregator, which the backends need in turn.
type Backends struct {
	Core       Replicas `json:"core"`
	Extensions Replicas `json:"extensions"`
	// Aggregator may have no servers. These cannot be names whose addresses are replicas, and there is nothing about gRPC.
	Aggregator Replicas `json:"aggregator,omitzero"`
}

// Replicas says where the replicas of a backend are.
type Replicas struct {
	// Servers are the URLs of replicas, https://host:port, or names whose addresses are replicas, dns:///host:port. There
	// is at least one.
	Servers []string `json:"servers"`
	// GRPC are the addresses at which the same replicas, in the same order, serve gRPC: host:port, or dns:///host:port where
	// there is a name among Servers. There are as many as Servers, or none.
	GRPC []string `json:"grpc,omitempty"`
}

// LoadBackends reads the file at path. Unknown fields are errors.
func LoadBackends(path string) (*Backends, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read where backends are: %w", err)
	}
	return parse(path, data)
}

func parse(path string, data []byte) (*Backends, error) {
	var b Backends
	if err := yaml.UnmarshalStrict(data, &b); err != nil {
		return nil, fmt.Errorf("%s does not say where backends are: %w", path, err)
	}
	if err := b.validate(); err != nil {
		return nil, fmt.Errorf("%s does not say where backends are: %w", path, err)
	}
	return &b, nil
}

// Write makes b the content of the file at path. Readers see all of it or what was there before.
func (b *Backends) Write(path string) error {
	if err := b.validate(); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	data, err := yaml.Marshal(b)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return atomicfile.Write(path, data)
}

func (b *Backends) validate() error {
	errs := []error{b.Core.validate("core"), b.Extensions.validate("extensions")}
	for _, server := range b.Aggregator.Servers {
		if at, err := OfServer(server); err != nil || at.IsName {
			errs = append(errs, fmt.Errorf("aggregator: server %q is not of the form https://host:port", server))
		}
	}
	if len(b.Aggregator.GRPC) > 0 {
		errs = append(errs, errors.New("aggregator: it does not serve gRPC"))
	}
	return errors.Join(errs...)
}

func (r *Replicas) validate(backend string) error {
	if len(r.Servers) == 0 {
		return fmt.Errorf("%s has no servers", backend)
	}
	if len(r.GRPC) > 0 && len(r.GRPC) != len(r.Servers) {
		return fmt.Errorf("%s has %d servers, but %d addresses for grpc", backend, len(r.Servers), len(r.GRPC))
	}
	for i, server := range r.Servers {
		at, err := OfServer(server)
		if err != nil {
			return fmt.Errorf("%s: server %w", backend, err)
		}
		if len(r.GRPC) == 0 {
			continue
		}
		grpc, err := OfGRPC(r.GRPC[i])
		if err != nil {
			return fmt.Errorf("%s: grpc %w", backend, err)
		}
		if grpc.IsName != at.IsName {
			return fmt.Errorf("%s: grpc %q cannot be of the same replicas as %q", backend, r.GRPC[i], server)
		}
	}
	return nil
}
