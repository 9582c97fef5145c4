// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2esuite

import (
	"regexp"
	"strings"
)

// GroupOf returns sig-apps for "[sig-apps] Deployment should ...".
func GroupOf(spec string) string {
	group, _, _ := strings.Cut(strings.TrimPrefix(spec, "["), "]")
	return group
}

// Exactly returns a pattern for ginkgo that matches only these specs.
func Exactly(specs []string) string {
	quoted := make([]string, 0, len(specs))
	for _, spec := range specs {
		quoted = append(quoted, regexp.QuoteMeta(spec))
	}
	// Ginkgo puts the name of the suite before the name of the spec.
	return " (" + strings.Join(quoted, "|") + ")$"
}
