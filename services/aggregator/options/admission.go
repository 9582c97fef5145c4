// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/kubernetes/plugin/pkg/admission/admit"
	"k8s.io/kubernetes/plugin/pkg/admission/deny"
	"k8s.io/kubernetes/plugin/pkg/admission/gc"
)

// newAdmissionOptions returns the plugins of kube-apiserver that concern APIServices, with its order and defaults.
func newAdmissionOptions() *genericoptions.AdmissionOptions {
	o := genericoptions.NewAdmissionOptions()
	o.Plugins = admission.NewPlugins() // it had one more, for namespaces
	for _, register := range []func(*admission.Plugins){
		admit.Register, gc.Register, deny.Register,
		mutatingpolicy.Register, validatingpolicy.Register, mutatingwebhook.Register, validatingwebhook.Register,
	} {
		register(o.Plugins)
	}
	return o
}
