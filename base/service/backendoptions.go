// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/link"
	"github.com/tripod-k8s/tripod/base/hop/rpc"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// BackendOptions are the options of a service that the aggregator sends requests to.
type BackendOptions struct {
	Options

	// GRPC is where the service serves the other services.
	GRPC addresses.BindFlag
	// Aggregator is where the aggregator is, unless BackendsFile says it.
	Aggregator link.AggregatorOptions
	// AllowDirectClients lets in clients that do not come through the aggregator.
	AllowDirectClients bool
	// Rights are what other services may do here. If nil, the service trusts the aggregator's decisions about their requests.
	Rights trust.Rights
}

// NewBackendOptions adds to the options of a service those of a backend.
func NewBackendOptions(o Options) BackendOptions {
	return BackendOptions{Options: o, GRPC: rpc.NewFlag()}
}

// AddTripodFlags adds the flags that kube-apiserver does not have. replaced is as in Options.AddTripodFlags.
func (o *BackendOptions) AddTripodFlags(sets *cliflag.NamedFlagSets, replaced string) {
	fs := sets.FlagSet(section)
	o.GRPC.AddFlags(fs)
	o.Aggregator.AddFlags(fs)
	fs.BoolVar(&o.AllowDirectClients, "allow-direct-clients", o.AllowDirectClients,
		"Also serve clients that do not come through the aggregator, if this service knows their credentials. Without this flag, they get 401.")
	o.Options.AddTripodFlags(sets, replaced)
}

// Validate returns every problem of these options.
func (o *BackendOptions) Validate() []error {
	return append(o.Options.Validate(), o.GRPC.Validate()...)
}

// ApplyTrust makes the server trust the aggregator, as trust.BackendOptions does. refuseAnonymous refuses clients without credentials.
func (o *BackendOptions) ApplyTrust(config *genericapiserver.Config, refuseAnonymous bool) error {
	return (&trust.BackendOptions{
		Options: o.ServiceTrust, AllowDirectClients: o.AllowDirectClients, RefuseAnonymous: refuseAnonymous, Rights: o.Rights,
	}).ApplyTo(config)
}

// Neighbours are where a backend finds the other services when it starts.
type Neighbours struct {
	// Backends is the content of BackendsFile. It is nil without such a file.
	Backends *addresses.Backends
	// Aggregator are the URLs of the aggregator. There may be none.
	Aggregator []addresses.Location
}

// FindNeighbours reads BackendsFile, if there is one, or the flags in its place.
func (o *BackendOptions) FindNeighbours() (found Neighbours, errs []error) {
	if o.BackendsFile != "" {
		var err error
		if found.Backends, err = addresses.LoadBackends(o.BackendsFile); err != nil {
			return found, []error{fmt.Errorf("--%s: %w", addresses.BackendsFileFlag, err)}
		}
	}
	found.Aggregator, errs = o.Aggregator.Find(found.Backends)
	return found, errs
}
