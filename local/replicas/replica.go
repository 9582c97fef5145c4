// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"os"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
)

// Replica is one replica of a service. It holds ports of the loopback interface until the replica starts.
type Replica struct {
	// Service and Name are such as "core" and "core-0".
	Service, Name string

	serving, grpc, probes *Port
}

// NewReplica reserves ports for a replica of a service.
func NewReplica(service, name string) (*Replica, error) {
	r := &Replica{Service: service, Name: name}
	for _, port := range []**Port{&r.serving, &r.grpc, &r.probes} {
		var err error
		if *port, err = ReservePort(); err != nil {
			r.Release()
			return nil, err
		}
	}
	return r, nil
}

// Release frees the ports. It may be called more than once.
func (r *Replica) Release() {
	for _, port := range []*Port{r.serving, r.grpc, r.probes} {
		if port != nil {
			port.Release()
		}
	}
}

// URL returns where the replica serves, such as https://127.0.0.1:20000. An aggregator may serve elsewhere.
func (r *Replica) URL() string { return r.serving.URL() }

// ProbeURL returns where the replica answers probes.
func (r *Replica) ProbeURL() string { return "http://" + r.probes.Address() }

// Files returns copies of the listeners that hold the ports. The ports stay held until these are closed, too.
func (r *Replica) Files() ([]*os.File, error) {
	var files []*os.File
	for _, port := range []*Port{r.serving, r.grpc, r.probes} {
		file, err := port.listener.File()
		if err != nil {
			return nil, fmt.Errorf("cannot hand over port %s: %w", port.address, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// Port returns the port of the URL.
func (r *Replica) Port() string { return r.serving.Number() }

// Locate returns where the replicas of a backend are.
func Locate(replicas []*Replica) addresses.Replicas {
	var located addresses.Replicas
	for _, r := range replicas {
		located.Servers = append(located.Servers, r.serving.URL())
		located.GRPC = append(located.GRPC, r.grpc.Address())
	}
	return located
}
