// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"k8s.io/apiserver/pkg/server/flagz"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/service/auditlog"
	"github.com/tripod-k8s/tripod/base/service/settings"
)

// section is the section of the help for flags that kube-apiserver does not have.
const section = "tripod"

// Options are the options that every service has.
type Options struct {
	GenericOptions

	// Name is the name of the service, such as "core", and Program that of its binary.
	Name, Program string
	// ServiceTrust is the identity of the service among Tripod's services.
	ServiceTrust trust.Options
	// Probes is the address that answers probes without authentication.
	Probes addresses.BindFlag
	// AuditSocket is the socket of the audit log's writer, if that is another process.
	AuditSocket string
	// BackendsFile has the addresses of the replicas of the other services. It replaces the lists of servers.
	BackendsFile string
	// Replica is the name of this replica among those on the same host.
	Replica string

	// Flagz serves the flags at /flagz. AddTripodFlags sets it.
	Flagz flagz.Reader
}

// keysOfALease is how many keys in etcd share a lease. If etcd has users, it checks all keys of the lease whenever it attaches another one,
// in about 2 µs each: with kube-apiserver's 1,000 keys, a put takes up to four times as long as without users. With fewer keys than 50,
// making leases would take longer than the checks. See the benchmark in admin/etcd/access.
const keysOfALease = 50

// NewOptions returns the options of a service. Unlike kube-apiserver's defaults, a shutdown loses no requests and ends watches, and fewer
// events share a lease.
func NewOptions(name string, generic GenericOptions) Options {
	trust.SetShutdownDefaults(generic.ServerRun)
	if generic.Etcd != nil {
		generic.Etcd.StorageConfig.LeaseManagerConfig.MaxObjectCount = keysOfALease
	}
	return Options{GenericOptions: generic, Name: name, Program: "tripod-" + name, Probes: newProbesFlag()}
}

// AddTripodFlags adds the flags that kube-apiserver does not have. replaced are the flags that --backends-file replaces, such as
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
	return append(o.ServiceTrust.Validate(), o.ValidateAlone()...)
}

// ValidateAlone is Validate for a service that has no other services beside it.
func (o *Options) ValidateAlone() []error {
	var errs []error
	if err := settings.Refuse(o.ServerRun.ComponentGlobalsRegistry); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.Probes.Validate()...)
	errs = append(errs, auditlog.Validate(o.AuditSocket, o.Audit)...)
	return append(errs, o.GenericOptions.validate()...)
}
