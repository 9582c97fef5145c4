// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"

	"github.com/spf13/pflag"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/tripod-k8s/tripod/base/backend"
	"github.com/tripod-k8s/tripod/base/service"
)

// options are the flags of a service.
type options struct {
	backend.Options
	admission *genericoptions.AdmissionOptions

	// These are for a service behind kube-apiserver.
	authentication *genericoptions.DelegatingAuthenticationOptions
	authorization  *genericoptions.DelegatingAuthorizationOptions
	core           *genericoptions.CoreAPIOptions

	service *Service
	// environment is filled before plugins are made.
	environment *Environment
	// types has the scheme of the author's types, and wrong the error from building it.
	types *types
	wrong error
}

// completed are options that were completed and found valid.
type completed struct {
	*options
	neighbours backend.Neighbours
}

func newOptions(s *Service) *options {
	t, wrong := newTypes(s)
	o := &options{
		admission:      genericoptions.NewAdmissionOptions(),
		authentication: genericoptions.NewDelegatingAuthenticationOptions(),
		authorization:  genericoptions.NewDelegatingAuthorizationOptions(),
		core:           genericoptions.NewCoreAPIOptions(),
		service:        s, types: t, wrong: wrong,
		environment: &Environment{types: t},
	}
	serving := genericoptions.NewSecureServingOptions()
	serving.Required = true
	// The aggregator, its client, sends many requests over one connection.
	serving.HTTP2MaxStreamsPerConnection = 1000
	o.Options = backend.NewOptions(s.Name, service.NewGenericOptions(newEtcdOptions(s, t), serving))
	o.Program = s.Name
	for _, plugin := range s.Plugins {
		o.admission.Plugins.Register(plugin.Name, func(io.Reader) (admission.Interface, error) { return plugin.New(o.environment) })
		o.admission.RecommendedPluginOrder = append(o.admission.RecommendedPluginOrder, plugin.Name)
	}
	return o
}

// newEtcdOptions returns nil if the service keeps nothing in etcd.
func newEtcdOptions(s *Service, t *types) *genericoptions.EtcdOptions {
	if !s.stored() {
		return nil
	}
	config := storagebackend.NewDefaultConfig(cmp.Or(s.EtcdPrefix, "/registry"), nil)
	if t != nil {
		config.Codec, config.EncodeVersioner = t.codecs.LegacyCodec(t.storage...), t.storage
	}
	return genericoptions.NewEtcdOptions(config)
}

// delegated reports whether the service is behind kube-apiserver, and not behind Tripod.
func (o *options) delegated() bool {
	trust := o.ServiceTrust
	return trust.CAFile == "" && trust.CertFile == "" && trust.KeyFile == ""
}

// Flags returns the flags by section.
func (o *options) Flags() *cliflag.NamedFlagSets {
	sets := &cliflag.NamedFlagSets{}
	o.AddGenericFlags(sets)
	if o.Etcd == nil {
		addUnusedEtcdFlags(sets.FlagSet("etcd"))
	}
	if o.service.AddFlags != nil {
		o.service.AddFlags(sets.FlagSet(o.service.Name))
	}
	o.admission.AddFlags(sets.FlagSet("admission"))
	o.AddTripodFlags(sets)
	o.authentication.AddFlags(sets.FlagSet("behind kube-apiserver"))
	o.authorization.AddFlags(sets.FlagSet("behind kube-apiserver"))
	o.core.AddFlags(sets.FlagSet("behind kube-apiserver"))
	return sets
}

// unusedEtcdFlags are the flags by which tripod up gives every service the address of etcd and its own prefix there.
var unusedEtcdFlags = []string{
	"etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-prefix", "etcd-compaction-interval", "etcd-db-metric-poll-interval",
}

// addUnusedEtcdFlags lets tripod up start a service that keeps nothing in etcd as it starts all others. Other flags about etcd are
// errors, above all those of encryption: nothing would be encrypted.
func addUnusedEtcdFlags(fs *pflag.FlagSet) {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	genericoptions.NewEtcdOptions(&storagebackend.Config{}).AddFlags(known)
	for _, name := range unusedEtcdFlags {
		flag := known.Lookup(name)
		flag.Usage = "Has no effect: this service keeps nothing in etcd."
		fs.AddFlag(flag)
	}
}

// Validate returns every problem of the flags.
func (o *options) Validate() []error {
	if o.wrong != nil {
		return []error{fmt.Errorf("this program is wrong: %w", o.wrong)}
	}
	errs := o.admission.Validate()
	if o.delegated() {
		errs = append(errs, o.ValidateAlone()...)
		errs = append(errs, o.authentication.Validate()...)
		errs = append(errs, o.authorization.Validate()...)
		errs = append(errs, o.core.Validate()...)
	} else {
		errs = append(errs, o.Options.Validate()...)
	}
	if o.service.ValidateFlags != nil {
		if err := o.service.ValidateFlags(); err != nil {
			errs = append(errs, err)
		}
	}
	return append(errs, o.APIEnablement.Validate(o.types.scheme)...)
}

// Complete fills in what can be derived from valid flags.
func (o *options) Complete(context.Context) (*completed, error) {
	if !o.delegated() {
		neighbours, err := o.Options.Complete()
		return &completed{o, neighbours}, err
	}
	local := []net.IP{net.IPv4(127, 0, 0, 1)}
	return &completed{options: o}, utilerrors.NewAggregate([]error{
		o.ServerRun.Complete(),
		o.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, local),
		o.ServerRun.DefaultAdvertiseAddress(o.SecureServing.SecureServingOptions),
	})
}
