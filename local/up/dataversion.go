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
	baseversion "k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/internal/service/atomicfile"
)

// stored is the minor version of Kubernetes in whose form this instance stores objects: that of the services, unless they emulate an older
// one. Services check the flag. A value that they will reject counts for nothing here.
func (o *Options) stored() *version.Version {
	own := version.MustParseGeneric(baseversion.DefaultKubeBinaryVersion)
	for _, values := range o.Shared["emulated-version"] {
		for value := range strings.SplitSeq(values, ",") {
			emulated, err := version.ParseGeneric(strings.TrimPrefix(strings.TrimSpace(value), "kube="))
			if err == nil && emulated.LessThan(own) {
				return emulated
			}
		}
	}
	return own
}

// checkVersion returns an error if a newer version of Kubernetes may have stored objects in the directory which this one cannot read.
// Otherwise it remembers the newest version that has stored any. That must be before services start.
func (d DataDir) checkVersion(o *Options) error {
	own, now := version.MustParseGeneric(baseversion.DefaultKubeBinaryVersion), o.stored()
	text, err := os.ReadFile(d.versionFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot tell which version of Kubernetes the data is of: %w", err)
	}
	if err == nil {
		before, err := version.ParseGeneric(strings.TrimSpace(string(text)))
		switch {
		case err != nil:
			return fmt.Errorf("%s does not name a version of Kubernetes: %w", d.versionFile(), err)
		case own.LessThan(before):
			return fmt.Errorf("%s has objects in the form of Kubernetes %d.%d, and this is Tripod with %s, which may not know it: "+
				"use a Tripod with %d.%d or later, or restore a backup from before into another --data-dir",
				d, before.Major(), before.Minor(), baseversion.DefaultKubeBinaryVersion, before.Major(), before.Minor())
		case !before.LessThan(now):
			return nil
		}
	}
	return atomicfile.Write(d.versionFile(), fmt.Appendf(nil, "%d.%d\n", now.Major(), now.Minor()))
}
