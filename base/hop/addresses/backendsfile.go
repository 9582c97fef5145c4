// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/base/service/atomicfile"
)

// Names of Tripod's own services.
const (
	core       = "core"
	extensions = "extensions"
	aggregator = "aggregator"
)

// Backends says where the replicas of all backends are, and those of the aggregator, which the backends need in turn.
type Backends struct {
	Core       Replicas `json:"core"`
	Extensions Replicas `json:"extensions"`
	// Services are partitions of extensions and additional API services, by name (see ValidateBackend).
	Services map[string]Service `json:"services,omitempty"`
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

// Service is a partition of extensions or an additional API service behind the aggregator.
type Service struct {
	Replicas `json:",inline"`
	// Balance is how its requests are spread over its replicas. Empty means TwoChoices.
	Balance Balance `json:"balance,omitempty"`
	// Groups are the API groups that it may serve. Empty means each that is not built in and that no other backend has. A partition has
	// groups, and they may be of the form *.SUFFIX (see MatchGroup).
	Groups []string `json:"groups,omitempty"`
}

// Balance is a way to spread requests over replicas.
type Balance string

const (
	// TwoChoices lets every replica do a fair part of everything.
	TwoChoices Balance = "two-choices"
	// Rendezvous sends all requests for one resource to the same replica, so that only that one keeps its watch cache.
	Rendezvous Balance = "rendezvous"
)

// Validate returns an error if there is no such way.
func (b Balance) Validate() error {
	if b != "" && b != TwoChoices && b != Rendezvous {
		return fmt.Errorf("%q is not one of %s, %s", b, TwoChoices, Rendezvous)
	}
	return nil
}

// ValidateGroups returns an error if an additional API service cannot serve one of its groups.
func ValidateGroups(groups []string) error {
	for _, group := range groups {
		if wrong := validation.IsDNS1123Subdomain(group); len(wrong) > 0 {
			return fmt.Errorf("%q is not the name of an API group: %s", group, strings.Join(wrong, ", "))
		}
	}
	return nil
}

// ValidateName returns an error if an additional API service cannot have a name: it is a DNS label that starts with a letter, so that
// a Service of Kubernetes can have it, too, and is not that of one of Tripod's own services.
func ValidateName(name string) error {
	if name == core || name == extensions || name == aggregator {
		return fmt.Errorf("%q is a service of Tripod itself: choose another name", name)
	}
	if _, reserved := PartitionOf(name); reserved {
		return fmt.Errorf("%q is the name of a partition of extensions: choose another name", name)
	}
	if wrong := validation.IsDNS1035Label(name); len(wrong) > 0 {
		return fmt.Errorf("%q is not the name of a service: %s", name, strings.Join(wrong, ", "))
	}
	return nil
}

// Backend is an entry of the list of backends.
type Backend struct {
	Name string
	Service
}

// List returns all backends: core, extensions, and the others by name. Partitions of extensions spread requests as extensions does.
func (b *Backends) List() []Backend {
	list := []Backend{{core, Service{Replicas: b.Core}}, {extensions, Service{Replicas: b.Extensions, Balance: Rendezvous}}}
	for _, name := range slices.Sorted(maps.Keys(b.Services)) {
		service := b.Services[name]
		if _, ok := PartitionOf(name); ok && service.Balance == "" {
			service.Balance = Rendezvous
		}
		list = append(list, Backend{name, service})
	}
	return list
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
	var errs []error
	for _, backend := range b.List() {
		errs = append(errs, backend.validate(backend.Name))
		if err := backend.Balance.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: balance %w", backend.Name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Services)) {
		if err := ValidateBackend(name); err != nil {
			errs = append(errs, fmt.Errorf("services: %w", err))
		}
		if err := b.Services[name].ValidateGroupsOf(name); err != nil {
			errs = append(errs, fmt.Errorf("%s: groups: %w", name, err))
		}
	}
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
