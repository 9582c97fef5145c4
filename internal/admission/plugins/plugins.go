// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugins says which of kube-apiserver's admission plugins belong to which service.
//
// Core has them all. Plugins that decide about objects of any kind are in extensions too, where they decide about custom
// resources, and in the aggregator, where they decide about APIServices, unless they only look at what is in a namespace. One that
// decides about certain built-in kinds would have nothing to do there. Their configuration, the file of
// --admission-control-config-file, is the same for all services: as in kube-apiserver, a plugin reads its own part of it, and
// parts of plugins that do not run are not read.
package plugins

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// The flags that name plugins.
const (
	EnableFlag  = "enable-admission-plugins"
	DisableFlag = "disable-admission-plugins"
)

// Plugin is an admission plugin of kube-apiserver.
type Plugin struct {
	Name string
	// OnByDefault is whether it runs without being asked for.
	OnByDefault bool
	// Concerns is what it decides about, for people. It is empty where that is anything.
	Concerns string
}

const on, off = true, false

// All returns all plugins in the order in which they run.
func All() []Plugin { return slices.Clone(all) }

// Set are the plugins of a service.
type Set struct{ plugins []Plugin }

// ForCustomResources returns the plugins that decide about objects of any kind.
func ForCustomResources() Set { return concerning(anything, inNamespaces) }

// ForAPIServices returns the plugins that decide about objects of any kind that are in no namespace.
func ForAPIServices() Set { return concerning(anything) }

func concerning(what ...string) Set {
	return Set{slices.DeleteFunc(All(), func(plugin Plugin) bool { return !slices.Contains(what, plugin.Concerns) })}
}

// Names returns their names in the order in which they run.
func (s Set) Names() []string {
	names := make([]string, 0, len(s.plugins))
	for _, plugin := range s.plugins {
		names = append(names, plugin.Name)
	}
	return names
}

// DefaultOff returns the names of those that are off by default.
func (s Set) DefaultOff() sets.Set[string] {
	names := sets.New[string]()
	for _, plugin := range s.plugins {
		if !plugin.OnByDefault {
			names.Insert(plugin.Name)
		}
	}
	return names
}

// Refuse returns an error for each of the plugins, given by EnableFlag and DisableFlag to the service of this set, that belong to
// other services only. Names that nobody knows are no matter of this function.
func (s Set) Refuse(enabled, disabled []string) []error {
	return append(s.refuse(EnableFlag, enabled), s.refuse(DisableFlag, disabled)...)
}

func (s Set) refuse(flag string, names []string) []error {
	var errs []error
	for _, plugin := range all {
		if !slices.Contains(names, plugin.Name) || slices.Contains(s.plugins, plugin) {
			continue
		}
		owners := "core"
		if plugin.Concerns == inNamespaces {
			owners = "core and extensions"
		}
		errs = append(errs, fmt.Errorf("--%s: %s does not belong here but to %s, because it decides about %s. These do belong here: %s",
			flag, plugin.Name, owners, plugin.Concerns, strings.Join(s.Names(), ", ")))
	}
	return errs
}
