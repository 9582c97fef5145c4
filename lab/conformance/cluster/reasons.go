// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// minimum is the oldest kubelet with which a spec can pass, as the suite says in its name.
var minimum = regexp.MustCompile(`\[MinimumKubeletVersion:([0-9.]+)\]`)

// needsNewerKubelet returns the version of the kubelet that a spec needs, if it is newer than that of the nodes.
func needsNewerKubelet(spec, node string) (needs string, newer bool) {
	found := minimum.FindStringSubmatch(spec)
	if found == nil {
		return "", false
	}
	has, err := utilversion.ParseSemantic(node)
	if err != nil {
		return "", false
	}
	wants, err := utilversion.ParseGeneric(found[1])
	return found[1], err == nil && has.LessThan(wants)
}

// reasons are why a spec cannot pass in some clusters, whatever the API server.
var reasons = []struct {
	spec   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^\[sig-node\] ImageVolume`), "needs a kubelet and a container runtime that mount images as volumes"},
}

// reasonFor returns why a spec did not pass, as far as this is known.
func reasonFor(spec, node, failure string) string {
	if needs, newer := needsNewerKubelet(spec, node); newer {
		return fmt.Sprintf("needs a kubelet of %s", needs)
	}
	for _, known := range reasons {
		if known.spec.MatchString(spec) {
			return known.reason
		}
	}
	if strings.Contains(failure, "Watch closed unexpectedly") {
		return "needs one watch to last, and the replica that serves it is restarted; an informer begins another watch"
	}
	return firstLine(failure)
}
