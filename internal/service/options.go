// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"k8s.io/apiserver/pkg/server/flagz"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/internal/service/auditlog"
	"github.com/tripod-k8s/tripod/internal/service/settings"
)

// section is the section of the flags that kube-apiserver does not have.
const section = "tripod"

// Options are the options that every service has.
type Options struct {
	GenericOptions

	// Name is the name of the service, as in "core".
	Name string
	// ServiceTrust is the identity of the service among Tripod's services.
	ServiceTrust trust.Options
	// Probes is where the service answers probes without authentication.
	Probes addresses.BindFlag
	// AuditSocket is where the writer of the audit log is, if it is another process.
	AuditSocket string
	// BackendsFile says where the replicas of the other services are. It takes the place of lists of servers.
	BackendsFile string
	// Replica distinguishes replicas on one host.
	Replica string

	// Flagz shows the flags at /flagz. AddTripodFlags sets it.
	Flagz flagz.Reader
}

// NewOptions returns the options of a service. A shutdown loses no requests and ends watches, which is not kube-apiserver's default.
func NewOptions(name string, generic GenericOptions) Options {
	trust.SetShutdownDefaults(generic.ServerRun)
	return Options{GenericOptions: generic, Name: name, Probes: newProbesFlag()}
}

// AddTripodFlags adds the flags that kube-apiserver does not have. replaced are the flags whose place --backends-file takes, as in
// "--core-servers".
func (o *Options) AddTripodFlags(sets *cliflag.NamedFlagSets, replaced string) {
	fs := sets.FlagSet(section)
	o.ServiceTrust.AddFlags(fs)
	o.Probes.AddFlags(fs)
	auditlog.AddFlag(fs, &o.AuditSocket)
	addresses.AddBackendsFileFlag(fs, &o.BackendsFile, replaced)
	fs.StringVar(&o.Replica, "replica", o.Replica,
		"Name of this replica, unique among the replicas of "+o.Name+" on this host. It is part of the API server identity.")
	o.Flagz = flagz.NamedFlagSetsReader{FlagSets: *sets}
}

// Validate returns every problem of these options. It reads files, and changes nothing.
func (o *Options) Validate() []error {
	var errs []error
	if err := settings.Refuse(o.ServerRun.ComponentGlobalsRegistry); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.ServiceTrust.Validate()...)
	errs = append(errs, o.Probes.Validate()...)
	errs = append(errs, auditlog.Validate(o.AuditSocket, o.Audit)...)
	return append(errs, o.GenericOptions.validate()...)
}
