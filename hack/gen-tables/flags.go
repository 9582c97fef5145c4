// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/local/kubeapiserver"
)

// flags renders which service gets which flag of kube-apiserver: a table for each section.
func flags() string {
	var b strings.Builder
	section := ""
	for _, flag := range kubeapiserver.DescribeFlags() {
		if flag.Section != section {
			section = flag.Section
			fmt.Fprintf(&b, "\n### %s%s\n\n", strings.ToUpper(section[:1]), section[1:])
			b.WriteString("| flag | core | extensions | aggregator | |\n|---|---|---|---|---|\n")
		}
		note := flag.Note
		if flag.Refused != "" {
			note = "**refused**: " + flag.Refused
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s | %s | %s |\n", flag.Name, flag.Core, flag.Extensions, flag.Aggregator, note)
	}
	b.WriteString("\n### Feature gates that are refused\n\n| gate | |\n|---|---|\n")
	gates := kubeapiserver.RefusedGates()
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", gate, gates[gate])
	}
	return b.String()
}
