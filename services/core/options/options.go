// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the flags of tripod-core: all of kube-apiserver's and a few of its own.
package options

import (
	"context"
	"fmt"
	"net/url"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/server/flagz"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/link"
	"github.com/tripod-k8s/tripod/internal/hop/rpc"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/auditlog"
	"github.com/tripod-k8s/tripod/internal/service/settings"
)

// Options are the options of tripod-core before completion.
type Options struct {
	*options.ServerRunOptions
	Own
}

// Own are the options that kube-apiserver does not have.
type Own struct {
	ServiceTrust trust.BackendOptions
	Probes       addresses.BindFlag
	GRPC         addresses.BindFlag

	// Aggregator is where the aggregator is, unless BackendsFile says it.
	Aggregator   link.AggregatorOptions
	BackendsFile string
	// AdvertisePort is the port that the kubernetes Service and discovery name. 0 means core's own.
	AdvertisePort int
	// AuditSocket is where the writer of the audit log is, if it is another process.
	AuditSocket string
	// Replica distinguishes replicas on one host. Empty means kube-apiserver's identity, one per host.
	Replica string
}

// Completed are options that were completed and found valid.
type Completed struct {
	options.CompletedOptions
	Own
	// Backends is what BackendsFile said, if there is one.
	Backends *addresses.Backends
	// AggregatorURLs are where the aggregator is. There may be none.
	AggregatorURLs []*url.URL
}

// New returns options with kube-apiserver's defaults, except that shutdown ends watches.
func New() *Options {
	o := &Options{
		ServerRunOptions: options.NewServerRunOptions(),
		Own:              Own{Probes: service.NewProbesFlag(), GRPC: rpc.NewFlag()},
	}
	trust.SetShutdownDefaults(o.GenericServerRunOptions)
	// Aggregators keep answers about tokens, and are told when these hold no longer. A cache here would answer as before.
	o.Authentication.TokenSuccessCacheTTL = 0
	return o
}

// Flags returns the flags by section.
func (o *Options) Flags() *cliflag.NamedFlagSets {
	sets := o.ServerRunOptions.Flags()
	own := sets.FlagSet("tripod")
	o.ServiceTrust.AddFlags(own)
	o.Probes.AddFlags(own)
	o.GRPC.AddFlags(own)
	o.Aggregator.AddFlags(own)
	addresses.AddBackendsFileFlag(own, &o.BackendsFile, "--aggregator-servers")
	own.IntVar(&o.AdvertisePort, "advertise-port", o.AdvertisePort,
		"Port of the aggregator, named in the kubernetes Service, its endpoints and discovery. 0 means --secure-port.")
	auditlog.AddFlag(own, &o.AuditSocket)
	own.StringVar(&o.Replica, "replica", o.Replica,
		"Name of this replica, unique among the replicas of core on this host. It is part of the API server identity.")
	o.Flagz = flagz.NamedFlagSetsReader{FlagSets: sets}
	return &sets
}

// Complete fills in what can be derived and validates the result.
func (o *Options) Complete(ctx context.Context) (*Completed, error) {
	result := &Completed{Own: o.Own}
	errs := append(o.Own.validate(), result.findAggregator()...)
	errs = append(errs, o.refuse()...)
	errs = append(errs, auditlog.Validate(o.AuditSocket, o.Audit)...)
	errs = append(errs, o.ServiceTrust.ValidateApart("client-ca-file", o.Authentication.ClientCert.ClientCA)...)
	errs = append(errs, o.ServiceTrust.ValidateApart("requestheader-client-ca-file", o.Authentication.RequestHeader.ClientCAFile)...)
	if len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	completed, err := o.ServerRunOptions.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	result.CompletedOptions = completed
	return result, nil
}

// refuse returns what was asked for that only a kube-apiserver in one process can do.
func (o *Options) refuse() (errs []error) {
	if err := settings.Refuse(o.GenericServerRunOptions.ComponentGlobalsRegistry); err != nil {
		errs = append(errs, err)
	}
	if o.PeerCAFile != "" || o.PeerAdvertiseAddress.PeerAdvertiseIP != "" || o.PeerAdvertiseAddress.PeerAdvertisePort != "" {
		errs = append(errs, fmt.Errorf("--peer-ca-file, --peer-advertise-ip and --peer-advertise-port cannot be used with Tripod: %s", settings.NoPeers))
	}
	return errs
}

// findAggregator sets where the aggregator is.
func (o *Completed) findAggregator() (errs []error) {
	if o.BackendsFile != "" {
		var err error
		if o.Backends, err = addresses.LoadBackends(o.BackendsFile); err != nil {
			return []error{fmt.Errorf("--%s: %w", addresses.BackendsFileFlag, err)}
		}
	}
	o.AggregatorURLs, errs = o.Aggregator.Find(o.Backends)
	return errs
}

func (o *Own) validate() []error {
	errs := append(o.ServiceTrust.Validate(), o.Probes.Validate()...)
	errs = append(errs, o.GRPC.Validate()...)
	if o.AdvertisePort < 0 || o.AdvertisePort > 65535 {
		errs = append(errs, fmt.Errorf("--advertise-port: %d is not between 0 and 65535", o.AdvertisePort))
	}
	return errs
}
