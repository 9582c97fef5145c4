// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command rights-used fails if the tests did not use a right of a service, unless the right is listed here with a reason. Its argument is
// the directory where services noted the rights that they saw used (trust.UsedRightsVariable).
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/list"
)

// unused lists the rights that tests need not use, and why services have them. Optional services need not use those of NAME either.
var unused = map[string]string{
	"aggregator: patch flowschemas/status.flowcontrol.apiserver.k8s.io": onlyFirst,
	"extensions: patch flowschemas/status.flowcontrol.apiserver.k8s.io": onlyFirst,
	"aggregator: get /healthz/*":                                        onlyFailing,
	"aggregator: get /livez/*":                                          onlyFailing,
	"aggregator: get /readyz/*":                                         onlyFailing,
	"aggregator: get /metrics":                                          "a collector of metrics may use the certificate of the aggregator",
	"core: get /apis/*":                                                 onlyLegacy,
	"extensions: list, watch endpointslices.discovery.k8s.io":           "only webhooks that are called by endpoint need them",
	"extensions: get /api/*":                                            onlyLegacy,
	"extensions: get /apis/*":                                           onlyLegacy,
	"extensions: get /openapi":                                          "only /openapi/v3 and what is below it are read today",
	"extensions: get /version":                                          onlyLegacy,
	"extensions: get /version/":                                         onlyLegacy,
	"NAME: list, watch endpointslices.discovery.k8s.io":                 "only webhooks that are called by endpoint need them",
	"NAME: patch flowschemas/status.flowcontrol.apiserver.k8s.io":       onlyFirst,
	"NAME: get /api":                                                    onlyLegacy,
	"NAME: get /api/*":                                                  onlyLegacy,
	"NAME: get /apis/*":                                                 onlyLegacy,
	"NAME: get /openapi":                                                "only /openapi/v3 and what is below it are read today",
	"NAME: get /version":                                                onlyLegacy,
	"NAME: get /version/":                                               onlyLegacy,
}

const (
	onlyFirst   = "the first service that sees a FlowSchema without status writes it, and that may be core each time"
	onlyFailing = "the aggregator asks for a single check only to learn why it fails"
	onlyLegacy  = "clients of discovery fall back on it from the aggregated form"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rights-used DIRECTORY")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "rights-used:", err)
		os.Exit(1)
	}
}

func check(directory string) error {
	reasons := maps.Clone(unused)
	var idle, optional []string
	for _, name := range list.OptionalNames() {
		optional = append(optional, trust.UserOf(name))
	}
	for _, service := range list.Grantees() {
		for _, right := range list.Rights().Single(service) {
			_, listed := unused[right.String()]
			if slices.Contains(optional, service) {
				_, rule, _ := strings.Cut(right.String(), ":")
				_, also := unused["NAME:"+rule]
				listed = listed || also
			}
			listed = listed || service == trust.AnyOf(list.Extensions) && ofExtensions(right)
			delete(reasons, right.String())
			_, err := os.Stat(filepath.Join(directory, right.File()))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err != nil && !listed {
				idle = append(idle, right.String())
			}
		}
	}
	if len(reasons) > 0 {
		return fmt.Errorf("these rights are listed here, and no service has them:\n%s", strings.Join(slices.Sorted(maps.Keys(reasons)), "\n"))
	}
	if len(idle) > 0 {
		return fmt.Errorf("no test uses these rights, which services/list gives; remove them, or list them here with a reason:\n%s",
			strings.Join(idle, "\n"))
	}
	return nil
}

// ofExtensions reports whether extensions has the right that a partition of it has, too. The same code uses it, so tests need to use it
// only once.
func ofExtensions(right trust.Right) bool {
	_, rule, _ := strings.Cut(right.String(), ":")
	return slices.ContainsFunc(list.Rights().Single(trust.UserOf(list.Extensions)), func(own trust.Right) bool {
		_, other, _ := strings.Cut(own.String(), ":")
		return rule == other
	})
}
