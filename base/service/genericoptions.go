// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/spf13/pflag"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	_ "k8s.io/controller-manager/pkg/features/register" // --feature-gates knows all gates that kube-apiserver knows
)

// GenericOptions are the options of every generic API server, kube-apiserver included. They come from the packages of kube-apiserver, so
// the flags have its names, defaults and meanings.
type GenericOptions struct {
	ServerRun *genericoptions.ServerRunOptions
	// Etcd is nil if the service keeps nothing in etcd.
	Etcd           *genericoptions.EtcdOptions
	SecureServing  *genericoptions.SecureServingOptionsWithLoopback
	Audit          *genericoptions.AuditOptions
	Features       *genericoptions.FeatureOptions
	APIEnablement  *genericoptions.APIEnablementOptions
	EgressSelector *genericoptions.EgressSelectorOptions
	Traces         *genericoptions.TracingOptions
	Metrics        *metrics.Options
	Logs           *logs.Options
}

// NewGenericOptions returns kube-apiserver's defaults. etcd is nil if the service keeps nothing in etcd.
func NewGenericOptions(etcd *genericoptions.EtcdOptions, serving *genericoptions.SecureServingOptions) GenericOptions {
	return GenericOptions{
		ServerRun:      genericoptions.NewServerRunOptions(),
		Etcd:           etcd,
		SecureServing:  serving.WithLoopback(),
		Audit:          genericoptions.NewAuditOptions(),
		Features:       genericoptions.NewFeatureOptions(),
		APIEnablement:  genericoptions.NewAPIEnablementOptions(),
		EgressSelector: genericoptions.NewEgressSelectorOptions(),
		Traces:         genericoptions.NewTracingOptions(),
		Metrics:        metrics.NewOptions(),
		Logs:           logs.NewOptions(),
	}
}

// AddGenericFlags adds the flags, in the sections and the order of kube-apiserver's help.
func (o *GenericOptions) AddGenericFlags(sets *cliflag.NamedFlagSets) {
	for _, section := range []struct {
		name string
		add  func(*pflag.FlagSet)
	}{
		{"generic", o.ServerRun.AddUniversalFlags},
		{"etcd", o.Etcd.AddFlags},
		{"secure serving", o.SecureServing.AddFlags},
		{"auditing", o.Audit.AddFlags},
		{"features", o.Features.AddFlags},
		{"authentication", nil}, // the service adds its own
		{"authorization", nil},
		{"API enablement", o.APIEnablement.AddFlags},
		{"egress selector", o.EgressSelector.AddFlags},
		{"admission", nil},
		{"metrics", o.Metrics.AddFlags},
		{"logs", func(fs *pflag.FlagSet) { logsapi.AddFlags(o.Logs, fs) }},
		{"traces", o.Traces.AddFlags},
	} {
		fs := sets.FlagSet(section.name)
		if section.add != nil {
			section.add(fs)
		}
	}
}

func (o *GenericOptions) validate() []error {
	var errs []error
	for _, validate := range []func() []error{
		o.ServerRun.Validate, o.Etcd.Validate, o.SecureServing.Validate, o.Audit.Validate,
		o.Features.Validate, o.EgressSelector.Validate, o.Traces.Validate, o.Metrics.Validate,
	} {
		errs = append(errs, validate()...)
	}
	return errs
}
