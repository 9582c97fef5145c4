// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"debug/buildinfo"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	baseversion "k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/local/replicas"
	"github.com/tripod-k8s/tripod/services/list"
)

// versionModule is the module of Kubernetes that says which version a program is of.
const versionModule = "k8s.io/component-base"

// checkPrograms returns an error if the services beside this program have versions of Kubernetes that must not run together.
func (o *Options) checkPrograms() error {
	programs := map[string]*version.Version{}
	for _, name := range list.RequiredNames() {
		path, err := replicas.Binary(list.Program(name))
		if err != nil {
			continue // the start says so
		}
		if of := kubernetesOf(path); of != nil {
			programs[list.Program(name)] = of
		}
	}
	return compatible(ownVersion(), programs, len(o.emulated()) > 0)
}

// checkProgram returns an error if the program of a service has a version of Kubernetes that must not join this one. It is called before
// each start of a service, because a user replaces the program under a running instance, and ends the replicas of one service after the
// other. Other services do not count: their new program may not have been started yet.
func (o *Options) checkProgram(path string) error {
	of := kubernetesOf(path)
	if of == nil {
		return nil
	}
	return compatible(ownVersion(), map[string]*version.Version{filepath.Base(path): of}, len(o.emulated()) > 0)
}

// ownVersion returns the version of Kubernetes of this program, as in 1.37.
func ownVersion() *version.Version {
	return version.MustParseGeneric(baseversion.DefaultKubeBinaryVersion)
}

// compatible returns an error if programs of these versions must not run beside one another. Those that emulate a version may be one minor
// version apart. Others would store objects in a form that the older ones, and this instance by what it remembers, do not know.
func compatible(own *version.Version, programs map[string]*version.Version, emulate bool) error {
	oldest, newest := own, own
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		of := programs[name]
		if !emulate && (of.Major() != own.Major() || of.Minor() != own.Minor()) {
			older := own
			if of.LessThan(own) {
				older = of
			}
			return fmt.Errorf("%s is of Kubernetes %d.%d, and the running tripod is of %d.%d: "+
				"start tripod with --%s=%d.%d until all programs are replaced",
				name, of.Major(), of.Minor(), own.Major(), own.Minor(), emulatedVersion, older.Major(), older.Minor())
		}
		if of.LessThan(oldest) {
			oldest = of
		}
		if newest.LessThan(of) {
			newest = of
		}
	}
	if oldest.Major() == newest.Major() && newest.Minor()-oldest.Minor() <= 1 {
		return nil
	}
	found := []string{fmt.Sprintf("tripod is of Kubernetes %d.%d", own.Major(), own.Minor())}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		found = append(found, fmt.Sprintf("%s of %d.%d", name, programs[name].Major(), programs[name].Minor()))
	}
	return fmt.Errorf("%s: upgrade by one minor version at a time", strings.Join(found, ", "))
}

// kubernetesOf returns the version of Kubernetes that a program was built from, or nil if the program does not say. Kubernetes 1.37.2 has
// modules of version 0.37.2.
func kubernetesOf(path string) *version.Version {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil
	}
	return kubernetesAmong(info.Deps)
}

func kubernetesAmong(modules []*debug.Module) *version.Version {
	for _, module := range modules {
		if module.Path != versionModule {
			continue
		}
		if module.Replace != nil {
			module = module.Replace
		}
		of, err := version.ParseSemantic(module.Version)
		if err != nil || of.Major() != 0 {
			return nil
		}
		return version.MajorMinor(1, of.Minor())
	}
	return nil
}
