// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionplugins

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

func TestPluginsAreThoseOfKubeAPIServer(t *testing.T) {
	var names []string
	off := sets.New[string]()
	for _, plugin := range All() {
		names = append(names, plugin.Name)
		if !plugin.OnByDefault {
			off.Insert(plugin.Name)
		}
	}
	if !slices.Equal(names, kubeoptions.AllOrderedPlugins) {
		t.Errorf("plugins are %q, want those of kube-apiserver in its order: %q", names, kubeoptions.AllOrderedPlugins)
	}
	if want := kubeoptions.DefaultOffAdmissionPlugins(); !off.Equal(want) {
		t.Errorf("off by default are %q, want %q", sets.List(off), sets.List(want))
	}
}

func TestPluginsForBuiltinKindsAreRefused(t *testing.T) {
	errs := RefuseBuiltin("enable-admission-plugins", []string{"NamespaceExists", "PodSecurity", "Unknown", "LimitRanger"})
	if len(errs) != 2 {
		t.Fatalf("errors are %v", errs)
	}
	for i, want := range []string{
		"--enable-admission-plugins: LimitRanger does not belong here but to core, because it decides about pods and PersistentVolumeClaims. These do belong here: AlwaysAdmit, NamespaceAutoProvision,",
		"--enable-admission-plugins: PodSecurity does not belong here",
	} {
		if !strings.HasPrefix(errs[i].Error(), want) {
			t.Errorf("error is %q, want %q", errs[i], want)
		}
	}
}
