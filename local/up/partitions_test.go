// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"strings"
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

func TestAPartitionWithItsOwnEtcd(t *testing.T) {
	o := DefaultOptions()
	o.Partitions = []string{"small=example.org", "big=*.example.com,example.com"}
	o.PartitionEtcdServers = []string{"big=http://a:1,http://b:1"}
	assert.NoError(t, o.Validate())
	a := newArguments(t, o)
	args := a.partition("extensions-big", "extensions-big-0")
	for _, want := range []string{
		"--group-etcd-servers=*.example.com=http://a:1,http://b:1", "--group-etcd-servers=example.com=http://a:1,http://b:1", "--group-etcd-cafile=",
	} {
		assert.Contains(t, args, want)
	}
	assert.NotContains(t, strings.Join(a.partition("extensions-small", "extensions-small-0"), " "), "--group-etcd")
	for entry, want := range map[string]string{
		"big":             `--extensions-partition-etcd-servers: "big" is not of the form NAME=URL[,URL...]`,
		"huge=http://a:1": `--extensions-partition-etcd-servers: no --extensions-partition has the name "huge"`,
		"big=http://c:1":  "--extensions-partition-etcd-servers: big is given twice",
		"small=a:1":       `--extensions-partition-etcd-servers: etcd server "a:1" is not of the form https://host:port`,
	} {
		o.PartitionEtcdServers = []string{"big=http://a:1", entry}
		assert.ErrorContains(t, o.Validate(), want)
	}
}
