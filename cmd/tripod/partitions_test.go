// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/local/up"
)

// TestWrongPartitionsAreOneLine gives them to each command that takes partitions. The Helm chart, static pods and services have such tests
// of their own.
func TestWrongPartitionsAreOneLine(t *testing.T) {
	const list = "--extensions-partition="
	both := [][]string{{"up"}, {"etcd", "access", "--commands"}}
	for _, test := range []struct {
		name     string
		commands [][]string
		args     []string
		want     string
	}{
		{"a built-in group", both, []string{list + "a=apps"}, "partition a: apps has the group apps, which is built in"},
		{"a pattern with built-in groups", both, []string{list + "a=*.k8s.io"}, "which is built in"},
		{"overlapping lists", both, []string{list + "a=*.x.com", list + "b=y.x.com"}, "partitions a and b overlap: *.x.com and y.x.com have groups in common"},
		{"no groups", both, []string{list + "a="}, "partition a: name at least one API group"},
		{"no list", both, []string{list + "a"}, `"a" is not of the form NAME=GROUP[,GROUP...]`},
		{"everything", both, []string{list + "a=*"}, `partition a: "*" matches every API group: give groups, or *.SUFFIX`},
		{"everything below the root", both, []string{list + "a=*."}, `partition a: "*." matches every API group`},
		{"an etcd of an unknown partition", both[:1], []string{"--extensions-partition-etcd-servers=b=http://127.0.0.1:1"},
			`--extensions-partition-etcd-servers: no --extensions-partition has the name "b"`},
		{"an etcd that is no URL", both[:1], []string{list + "a=x.com", "--extensions-partition-etcd-servers=a=b"},
			`--extensions-partition-etcd-servers: etcd server "b" is not of the form https://host:port`},
		{"a move to no partition", [][]string{{"migrate", "groups", "--extensions-etcd=http://127.0.0.1:1", "--partition-etcd=http://127.0.0.1:1", "x.com"}},
			[]string{"--to=Big"}, `--to: "Big" is not the name of a partition`},
		{"a plan with a built-in group", [][]string{{"etcd", "check-groups", "--endpoints=http://127.0.0.1:1"}},
			[]string{"--group-etcd-servers=apps=http://127.0.0.1:1"}, "apps has the group apps, which is built in"},
	} {
		for _, command := range test.commands {
			t.Run(strings.Join(command[:min(2, len(command))], " ")+", "+test.name, func(t *testing.T) {
				t.Setenv(up.DataDirVariable, t.TempDir())
				_, err := execute(t, append(command, test.args...)...)
				require.ErrorContains(t, err, test.want)
				assert.NotContains(t, err.Error(), "\n", "one line")
			})
		}
	}
}
