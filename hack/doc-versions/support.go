// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	// skew is how many minor versions kubelets may be older, by Kubernetes' skew policy, and what can be emulated.
	skew = 3
	// ofControllers is that of kube-controller-manager and kube-scheduler.
	ofControllers = 1
)

// support is the table of what works together, whose columns are the newer and the older version.
var support = []sentence{
	rowOf(`\| \| Tripod with Kubernetes (1\.\d+) \| Tripod with Kubernetes (1\.\d+) \|`, 0),
	rowOf("\\| `--emulated-version` "+`\| (1\.\d+) to (1\.\d+) \| (1\.\d+) to (1\.\d+) \|`, skew),
	rowOf(`\| kubelets, [^|]* \| (1\.\d+) to (1\.\d+) \| (1\.\d+) to (1\.\d+) \|`, skew),
	rowOf(`\| kube-controller-manager and kube-scheduler \| (1\.\d+) or (1\.\d+) \| (1\.\d+) or (1\.\d+) \|`, ofControllers),
	{
		versionsPage, regexp.MustCompile(`\| etcd that it embeds, and that the chart installs \| (\S+) \| (\S+) \|`),
		func(f *facts) []string { return []string{f.etcds[len(f.etcds)-1], f.etcds[len(f.etcds)-2]} },
	},
}

const versionsPage = "docs/kubernetes-versions.md"

// rowOf is a row whose cells go from so many minor versions before that of the column to that.
func rowOf(pattern string, back int) sentence {
	return sentence{versionsPage, regexp.MustCompile(pattern), func(f *facts) (cells []string) {
		for _, column := range []string{f.minor, before(f.minor, 1)} {
			if back > 0 {
				cells = append(cells, before(column, back))
			}
			cells = append(cells, column)
		}
		return cells
	}}
}

// before returns the minor version that came n before another: 1.34 is 3 before 1.37.
func before(minor string, n int) string {
	major, number, _ := strings.Cut(minor, ".")
	m, err := strconv.Atoi(number)
	if err != nil {
		panic(fmt.Sprintf("%s is no minor version", minor)) // go.mod requires a whole one
	}
	return fmt.Sprintf("%s.%d", major, m-n)
}
