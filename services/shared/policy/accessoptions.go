// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	genericoptions "k8s.io/apiserver/pkg/server/options"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/kubernetes/pkg/features" // --feature-gates knows all gates that kube-apiserver knows

	"github.com/tripod-k8s/tripod/services/shared/plugins"
)

// AccessOptions are the options of authorization and admission in services other than core.
type AccessOptions struct {
	Authorization *Options
	Admission     *genericoptions.AdmissionOptions

	plugins plugins.Set
}

// NewAccessOptions returns the options of a service with the admission plugins that admission has registered. They run in the order and
// with the defaults of kube-apiserver.
func NewAccessOptions(admission *genericoptions.AdmissionOptions, plugins plugins.Set) AccessOptions {
	admission.RecommendedPluginOrder, admission.DefaultOffPlugins = plugins.Names(), plugins.DefaultOff()
	return AccessOptions{Authorization: NewOptions(), Admission: admission, plugins: plugins}
}

// AddFlags adds the flags.
func (o *AccessOptions) AddFlags(sets *cliflag.NamedFlagSets) {
	o.Authorization.AddFlags(sets.FlagSet("authorization"))
	o.Admission.AddFlags(sets.FlagSet("admission"))
}

// Validate returns every problem of these options.
func (o *AccessOptions) Validate() []error {
	return append(o.Authorization.Validate(), o.validateAdmission()...)
}

// validateAdmission explains why a plugin is refused. Admission.Validate would only call it unknown.
func (o *AccessOptions) validateAdmission() []error {
	if errs := o.plugins.Refuse(o.Admission.EnablePlugins, o.Admission.DisablePlugins); len(errs) > 0 {
		return errs
	}
	return o.Admission.Validate()
}
