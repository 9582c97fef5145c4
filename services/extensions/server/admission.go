// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	kubeapiserveradmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"

	"github.com/tripod-k8s/tripod/base/backend"
)

// admissionInitializers are for the plugins of kube-apiserver that concern custom resources.
func admissionInitializers(*backend.Config) ([]admission.PluginInitializer, error) {
	return []admission.PluginInitializer{
		countQuota{},
		kubeapiserveradmission.NewPluginInitializer(), // for configuration by manifests
	}, nil
}

// countQuota configures the ResourceQuota plugin for objects that are only counted: count/<plural>.<group>.
type countQuota struct{}

// Initialize implements admission.PluginInitializer.
func (countQuota) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(generic.NewConfiguration(nil, nil))
	}
}
