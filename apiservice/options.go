// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/tripod-k8s/tripod/internal/leg"
	"github.com/tripod-k8s/tripod/internal/service"
)

// options are the flags of a service.
type options struct {
	leg.Options
	admission *genericoptions.AdmissionOptions

	// These are for a service behind kube-apiserver.
	authentication *genericoptions.DelegatingAuthenticationOptions
	authorization  *genericoptions.DelegatingAuthorizationOptions
	core           *genericoptions.CoreAPIOptions

	service *Service
	// environment is filled before plugins are made.
	environment *Environment
	// types and wrong are what the author's types come to, and what is wrong with them.
	types *types
	wrong error
}

// completed are options that were completed and found valid.
type completed struct {
	*options
	neighbours leg.Neighbours
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
	// The aggregator, its client, sends many requests over one connection.
	serving.HTTP2MaxStreamsPerConnection = 1000
	o.Options = leg.NewOptions(s.Name, service.NewGenericOptions(newEtcdOptions(s, t), serving))
	o.Program = s.Name
	for _, plugin := range s.Plugins {
		o.admission.Plugins.Register(plugin.Name, func(io.Reader) (admission.Interface, error) { return plugin.New(o.environment) })
		o.admission.RecommendedPluginOrder = append(o.admission.RecommendedPluginOrder, plugin.Name)
	}
	return o
}

func newEtcdOptions(s *Service, t *types) *genericoptions.EtcdOptions {
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
	o.admission.AddFlags(sets.FlagSet("admission"))
	o.AddTripodFlags(sets)
	o.authentication.AddFlags(sets.FlagSet("behind kube-apiserver"))
	o.authorization.AddFlags(sets.FlagSet("behind kube-apiserver"))
	o.core.AddFlags(sets.FlagSet("behind kube-apiserver"))
	return sets
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
