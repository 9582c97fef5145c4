// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	apiservercompatibility "k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/component-base/compatibility"
	baseversion "k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/base/service/atomicfile"
)

// emulatedVersion is one of SharedFlags.
const emulatedVersion = "emulated-version"

// emulated returns the versions of Kubernetes that the services shall emulate, as the flag has them.
func (o *Options) emulated() []string {
	var versions []string
	for _, values := range append(valuesOf(emulatedVersion, o.CoreArgs), o.Shared[emulatedVersion]...) {
		for value := range strings.SplitSeq(values, ",") {
			component, of, hasComponent := strings.Cut(strings.TrimSpace(value), "=")
			switch {
			case !hasComponent:
				versions = append(versions, component)
			case component == compatibility.DefaultKubeComponent:
				versions = append(versions, of)
			}
		}
	}
	return versions
}

// validateEmulated returns an error if services would not emulate a version, and so not start.
func (o *Options) validateEmulated() error {
	for _, text := range o.emulated() {
		allowed := apiservercompatibility.DefaultBuildEffectiveVersion()
		emulated, err := version.ParseGeneric(text)
		if err != nil {
			return fmt.Errorf("--%s: %q is not a version of Kubernetes such as 1.36", emulatedVersion, text)
		}
		choice, _, _ := strings.Cut(allowed.AllowedEmulationVersionRange(), "(")
		if allowed.SetEmulationVersion(emulated); len(allowed.Validate()) > 0 {
			return fmt.Errorf("--%s: %s is not among the versions that this Tripod emulates: %s",
				emulatedVersion, text, strings.Replace(choice, "..", " to ", 1))
		}
	}
	return nil
}

// stored is the minor version of Kubernetes in whose form this instance stores objects: that of the services, unless they emulate an older
// one.
func (o *Options) stored() *version.Version {
	stored := ownVersion()
	for _, text := range o.emulated() {
		if emulated, err := version.ParseGeneric(text); err == nil && emulated.LessThan(stored) {
			stored = emulated
		}
	}
	return stored
}

// checkVersion returns an error if a newer version of Kubernetes may have stored objects in the directory which this one cannot read. It
// changes nothing.
func (d DataDir) checkVersion() error {
	own := ownVersion()
	before, err := d.version()
	if err == nil && before != nil && own.LessThan(before) {
		return fmt.Errorf("%s has objects in the form of Kubernetes %d.%d, and this is Tripod with %s, which may not know it: "+
			"use a Tripod with %d.%d or later, or restore a backup from before into another --data-dir",
			d, before.Major(), before.Minor(), baseversion.DefaultKubeBinaryVersion, before.Major(), before.Minor())
	}
	return err
}

// version returns the newest version of Kubernetes that has stored objects in the directory, or nil if none has.
func (d DataDir) version() (*version.Version, error) {
	text, err := os.ReadFile(d.versionFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // no version is not an error
	case err != nil:
		return nil, fmt.Errorf("cannot determine the version of Kubernetes of the data: %w", err)
	}
	before, err := version.ParseGeneric(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s does not name a version of Kubernetes: %w", d.versionFile(), err)
	}
	return before, nil
}

// rememberVersion remembers that a version stores objects in the directory, unless a newer one has. That must be before services start.
func (d DataDir) rememberVersion(now *version.Version) error {
	before, err := d.version()
	if err != nil || before != nil && !before.LessThan(now) {
		return err
	}
	return atomicfile.Write(d.versionFile(), fmt.Appendf(nil, "%d.%d\n", now.Major(), now.Minor()))
}
