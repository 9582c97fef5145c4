// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

// policies are the admission plugins that follow policies, and the resources that these are.
var policies = map[string]string{
	mutatingpolicy.PluginName:   "mutatingadmissionpolicies",
	validatingpolicy.PluginName: "validatingadmissionpolicies",
}

// disableUnserved disables the plugins whose policies the cluster does not serve, because it is older than this program. A plugin would
// wait for them without end, and no client could write anything.
func disableUnserved(cluster discovery.DiscoveryInterface, o *genericoptions.AdmissionOptions) error {
	gv := admissionregistrationv1.SchemeGroupVersion.String()
	served, err := cluster.ServerResourcesForGroupVersion(gv)
	if err != nil {
		return fmt.Errorf("what %s has in the cluster: %w", gv, err)
	}
	for plugin, name := range policies {
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
			klog.InfoS("The cluster does not serve these policies, so they do not apply", "plugin", plugin, "resource", name, "groupVersion", gv)
			o.DisablePlugins = append(o.DisablePlugins, plugin)
		}
	}
	return nil
}
