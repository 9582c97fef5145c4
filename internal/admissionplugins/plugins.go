// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admissionplugins says which of kube-apiserver's admission plugins belong to which service.
//
// Core has them all. A plugin that decides about objects of any kind is in extensions too, where it decides about custom
// resources; one that decides about certain built-in kinds would have nothing to do there. Their configuration, the file of
// --admission-control-config-file, is the same for all services: as in kube-apiserver, a plugin reads its own part of it, and
// parts of plugins that do not run are not read.
package admissionplugins

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
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

// AnyKind returns the names of the plugins that decide about objects of any kind, in the order in which they run, and those of
// them that are off by default.
func AnyKind() (order []string, defaultOff sets.Set[string]) {
	defaultOff = sets.New[string]()
	for _, plugin := range all {
		if plugin.Concerns != anything {
			continue
		}
		order = append(order, plugin.Name)
		if !plugin.OnByDefault {
			defaultOff.Insert(plugin.Name)
		}
	}
	return order, defaultOff
}

// RefuseBuiltin returns an error for each of the plugins, which were given by a flag to a service without built-in resources,
// that decides about such only. Names that nobody knows are no matter of this function.
func RefuseBuiltin(flag string, names []string) []error {
	var errs []error
	for _, plugin := range all {
		if plugin.Concerns != anything && slices.Contains(names, plugin.Name) {
			here, _ := AnyKind()
			errs = append(errs, fmt.Errorf("--%s: %s does not belong here but to core, because it decides about %s. These do belong here: %s",
				flag, plugin.Name, plugin.Concerns, strings.Join(here, ", ")))
		}
	}
	return errs
}
