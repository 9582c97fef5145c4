// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/kubernetes/plugin/pkg/admission/admit"
	"k8s.io/kubernetes/plugin/pkg/admission/deny"
	"k8s.io/kubernetes/plugin/pkg/admission/gc"
	"k8s.io/kubernetes/plugin/pkg/admission/namespace/autoprovision"
	"k8s.io/kubernetes/plugin/pkg/admission/namespace/exists"
)

// newAdmissionOptions returns the plugins of kube-apiserver that concern custom resources.
func newAdmissionOptions() *genericoptions.AdmissionOptions {
	// The generic options have the plugins of all generic API servers.
	o := genericoptions.NewAdmissionOptions()
	admit.Register(o.Plugins)
	autoprovision.Register(o.Plugins)
	exists.Register(o.Plugins)
	gc.Register(o.Plugins)
	resourcequota.Register(o.Plugins)
	deny.Register(o.Plugins)
	return o
}
