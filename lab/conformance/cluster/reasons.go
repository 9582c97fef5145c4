// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "regexp"

// reasons say why a spec cannot pass in some clusters, whatever the API server.
var reasons = []struct {
	spec   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^\[sig-node\] ImageVolume`), "needs a kubelet and a container runtime that mount images as volumes"},
}

// reasonFor returns why a spec did not pass, as far as this is known.
func reasonFor(spec, failure string) string {
	for _, known := range reasons {
		if known.spec.MatchString(spec) {
			return known.reason
		}
	}
	return firstLine(failure)
}
