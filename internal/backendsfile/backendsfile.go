// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backendsfile is a file that says where the replicas of core and extensions are, for those who cannot be told by
// flags because it changes while they run. It is YAML or JSON:
//
//	core:
//	  servers: ["https://127.0.0.1:20001", "https://127.0.0.1:20002"]
//	  grpc: ["127.0.0.1:20003", "127.0.0.1:20004"]
//	extensions:
//	  servers: ["https://127.0.0.1:20005"]
//
// The elements are those of the flags of services: --core-servers, --core-grpc-servers and --extensions-servers.
package backendsfile

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/internal/atomicfile"
)

// Backends says where the replicas of both backends are.
type Backends struct {
	Core       Replicas `json:"core"`
	Extensions Replicas `json:"extensions"`
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

// Load reads the file at path. Unknown fields are errors.
func Load(path string) (*Backends, error) {
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
	return errors.Join(b.Core.validate("core"), b.Extensions.validate("extensions"))
}

func (r *Replicas) validate(backend string) error {
	if len(r.Servers) == 0 {
		return fmt.Errorf("%s has no servers", backend)
	}
	if len(r.GRPC) > 0 && len(r.GRPC) != len(r.Servers) {
		return fmt.Errorf("%s has %d servers, but %d addresses for grpc", backend, len(r.Servers), len(r.GRPC))
	}
	for i, server := range r.Servers {
		if !isServer(server) {
			return fmt.Errorf("%s: server %q is not of the form https://host:port or dns:///host:port", backend, server)
		}
		if len(r.GRPC) == 0 {
			continue
		}
		address, isName := strings.CutPrefix(r.GRPC[i], dnsPrefix)
		if !isHostPort(address) {
			return fmt.Errorf("%s: grpc %q is not of the form host:port or dns:///host:port", backend, r.GRPC[i])
		}
		if isName != strings.HasPrefix(server, dnsPrefix) {
			return fmt.Errorf("%s: grpc %q cannot be of the same replicas as %q", backend, r.GRPC[i], server)
		}
	}
	return nil
}

// dnsPrefix is before names whose addresses are replicas.
const dnsPrefix = "dns:///"

func isServer(server string) bool {
	if name, ok := strings.CutPrefix(server, dnsPrefix); ok {
		return isHostPort(name)
	}
	u, err := url.Parse(server)
	return err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == ""
}

func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.Contains(host, "/") {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}
