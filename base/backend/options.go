// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backend is what every API service behind the aggregator consists of, except core and besides its APIs: the flags, its links to
// core and the aggregator, admission with what core knows, and the feed. Extensions is built on it, and so are the services of package
// apiservice.
package backend

import (
	"fmt"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/link"
	"github.com/tripod-k8s/tripod/base/service"
)

// CoreServersFlag is the flag that says where core is.
const CoreServersFlag = "core-servers"

// Options are the flags of a backend.
type Options struct {
	service.BackendOptions

	// CoreServers are the URLs of the replicas of core, in order of preference. BackendsFile replaces them.
	CoreServers []string
	// EndpointRouting sends webhook calls to the endpoints of a Service instead of its cluster IP.
	EndpointRouting bool
}

// NewOptions returns the options of the service of that name.
func NewOptions(name string, generic service.GenericOptions) Options {
	return Options{BackendOptions: service.NewBackendOptions(service.NewOptions(name, generic))}
}

// AddTripodFlags adds the flags that only services of Tripod have.
func (o *Options) AddTripodFlags(sets *cliflag.NamedFlagSets) {
	o.BackendOptions.AddTripodFlags(sets, "--"+CoreServersFlag+" and --aggregator-servers")
	own := sets.FlagSet("tripod")
	own.StringSliceVar(&o.CoreServers, CoreServersFlag, o.CoreServers,
		"URLs of the replicas of core (https://host:port), comma separated, or a name whose addresses are replicas "+
			"(dns:///host:port), such as that of a headless Service. This service uses one that is ready.")
	own.BoolVar(&o.EndpointRouting, "enable-aggregator-routing", o.EndpointRouting,
		"Send webhook calls to endpoint IPs rather than cluster IPs.")
}

// Validate returns every problem of the flags.
func (o *Options) Validate() []error {
	_, notFound := o.Find()
	return append(o.BackendOptions.Validate(), notFound...)
}

// Neighbours say where the other services are.
type Neighbours struct {
	service.Neighbours
	// Core are the URLs of core.
	Core []addresses.Location
}

// Find says where the other services are.
func (o *Options) Find() (Neighbours, []error) {
	var found Neighbours
	var errs []error
	found.Neighbours, errs = o.FindNeighbours()
	switch {
	case o.BackendsFile == "":
		core, wrong := parseCoreServers("--"+CoreServersFlag, o.CoreServers)
		found.Core, errs = core, append(errs, wrong...)
	case len(o.CoreServers) > 0:
		errs = append(errs, fmt.Errorf("--%s takes the place of --%s", addresses.BackendsFileFlag, CoreServersFlag))
	case found.Backends != nil:
		core, err := coreIn(found.Backends)
		found.Core = core
		if err != nil {
			errs = append(errs, err)
		}
	}
	return found, errs
}

// Complete fills in what can be derived from valid flags.
func (o *Options) Complete() (Neighbours, error) {
	found, errs := o.Find()
	if len(errs) > 0 {
		return found, utilerrors.NewAggregate(errs)
	}
	if err := o.ServerRun.Complete(); err != nil {
		return found, err
	}
	// The certificate of the service also serves its clients.
	certificate := &o.SecureServing.ServerCert.CertKey
	if certificate.CertFile == "" && certificate.KeyFile == "" {
		certificate.CertFile, certificate.KeyFile = o.ServiceTrust.CertFile, o.ServiceTrust.KeyFile
	}
	return found, o.ServerRun.DefaultAdvertiseAddress(o.SecureServing.SecureServingOptions)
}

// coreIn returns where core is.
func coreIn(backends *addresses.Backends) ([]addresses.Location, error) {
	urls, errs := parseCoreServers("--"+addresses.BackendsFileFlag+": servers of core", backends.Core.Servers)
	return urls, utilerrors.NewAggregate(errs)
}

func parseCoreServers(where string, servers []string) ([]addresses.Location, []error) {
	if len(servers) == 0 {
		return nil, []error{fmt.Errorf("%s: required", where)}
	}
	return link.ParseServers(where, servers, true)
}
