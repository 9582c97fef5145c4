// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugins says which of kube-apiserver's admission plugins belong to which service.
//
// Core runs all of them. Plugins that decide about objects of any kind also run in extensions, for custom resources, and in the aggregator,
// for APIServices. The aggregator leaves out those that look only at namespaced objects. Plugins for certain built-in kinds would have
// nothing to do outside core.
//
// All services take the same --admission-control-config-file. As in kube-apiserver, each plugin reads its own section, and no plugin reads
// the sections of plugins that do not run.
package plugins

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	services "github.com/tripod-k8s/tripod/services/list"
)

// The flags that name plugins.
const (
	EnableFlag  = "enable-admission-plugins"
	DisableFlag = "disable-admission-plugins"
)

// Plugin is an admission plugin of kube-apiserver.
type Plugin struct {
	Name string
	// OnByDefault is whether the plugin runs unless it is disabled.
	OnByDefault bool
	// Concerns names the objects that it decides about, for people. Empty means all objects.
	Concerns string
}

const on, off = true, false

// All returns all plugins in the order in which they run.
func All() []Plugin { return slices.Clone(all) }

// Set is the plugins of one service.
type Set struct{ plugins []Plugin }

// ForCustomResources returns the plugins that decide about objects of any kind.
func ForCustomResources() Set { return concerning(anything, inNamespaces) }

// ForAPIServices returns the plugins that decide about objects of any kind that are in no namespace.
func ForAPIServices() Set { return concerning(anything) }

func concerning(what ...string) Set {
	return Set{slices.DeleteFunc(All(), func(plugin Plugin) bool { return !slices.Contains(what, plugin.Concerns) })}
}

// Names returns the names of the plugins in the order in which they run.
func (s Set) Names() []string {
	names := make([]string, 0, len(s.plugins))
	for _, plugin := range s.plugins {
		names = append(names, plugin.Name)
	}
	return names
}

// DefaultOff returns the names of the plugins that are off by default.
func (s Set) DefaultOff() sets.Set[string] {
	names := sets.New[string]()
	for _, plugin := range s.plugins {
		if !plugin.OnByDefault {
			names.Insert(plugin.Name)
		}
	}
	return names
}

// Refuse returns an error for each plugin in the values of EnableFlag and DisableFlag that only other services run. It ignores names of
// unknown plugins, which k8s.io/apiserver refuses.
func (s Set) Refuse(enabled, disabled []string) []error {
	return append(s.refuse(EnableFlag, enabled), s.refuse(DisableFlag, disabled)...)
}

func (s Set) refuse(flag string, names []string) []error {
	var errs []error
	for _, plugin := range all {
		if !slices.Contains(names, plugin.Name) || slices.Contains(s.plugins, plugin) {
			continue
		}
		owners := services.Core
		if plugin.Concerns == inNamespaces {
			owners += " and " + services.Extensions
		}
		errs = append(errs, fmt.Errorf("--%s: %s does not belong here but to %s, because it decides about %s. The plugins of this service: %s",
			flag, plugin.Name, owners, plugin.Concerns, strings.Join(s.Names(), ", ")))
	}
	return errs
}
