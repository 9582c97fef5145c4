// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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

func TestPluginsOfOtherServicesAreRefused(t *testing.T) {
	names := []string{"NamespaceExists", "PodSecurity", "Unknown", "LimitRanger", "AlwaysDeny"}
	for _, test := range []struct {
		name string
		set  Set
		want []string
	}{
		{"for custom resources", ForCustomResources(), []string{
			"LimitRanger does not belong here but to core, because it decides about pods and PersistentVolumeClaims. The plugins of this service: AlwaysAdmit, NamespaceAutoProvision,",
			"PodSecurity does not belong here",
		}},
		{"for APIServices", ForAPIServices(), []string{
			"NamespaceExists does not belong here but to core and extensions, because it decides about objects in namespaces. The plugins of this service: AlwaysAdmit, OwnerReferencesPermissionEnforcement,",
			"LimitRanger does not belong here but to core,",
			"PodSecurity does not belong here",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for flag, errs := range map[string][]error{
				"--enable-admission-plugins: ": test.set.Refuse(names, nil), "--disable-admission-plugins: ": test.set.Refuse(nil, names),
			} {
				require.Len(t, errs, len(test.want), "errors")
				for i, want := range test.want {
					if !strings.HasPrefix(errs[i].Error(), flag+want) {
						t.Errorf("error is %q, want %q", errs[i], flag+want)
					}
				}
			}
		})
	}
}
