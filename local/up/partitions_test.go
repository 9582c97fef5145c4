// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tripod-k8s/tripod/local/replicas"
)

func TestPartitionsAreProcessesOfExtensions(t *testing.T) {
	o := DefaultOptions()
	o.Partitions = []string{"small=example.org", "big=*.example.com"}
	o.ExtensionsArgs = []string{"--v={replica}"}
	o.ExtensionsEtcdServers = []string{"http://a:1"}
	assert.Equal(t, []string{replicas.Core, replicas.Extensions, "extensions-big", "extensions-small", replicas.Aggregator}, o.services())
	a := newArguments(t, o)
	args := a.partition("extensions-big", "extensions-big-0")
	for _, want := range []string{
		"--partition=big", "--replica=extensions-big-0", "--v=extensions-big-0", "--etcd-servers=http://a:1", "--authorization-mode=Node,RBAC",
	} {
		assert.Contains(t, args, want)
	}
	assert.Equal(t, len("extensions-small-0"), o.longestName())
}
