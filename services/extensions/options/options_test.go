// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/service/servicetest"
)

// goodFlags returns the flags that are required, with files that are good.
func goodFlags(t *testing.T) servicetest.Flags {
	return servicetest.GoodFlags(t).With(servicetest.Flags{"core-servers": "https://127.0.0.1:6444,https://127.0.0.1:6445/"})
}

func complete(t *testing.T, changed servicetest.Flags) (*Completed, error) {
	t.Helper()
	return servicetest.Complete(t, New(), goodFlags(t).With(changed))
}

func TestCompleteWithGoodFlags(t *testing.T) {
	completed, err := complete(t, nil)
	require.NoError(t, err)
	if len(completed.Core) != 2 || completed.Core[1].Address() != "127.0.0.1:6445" {
		t.Errorf("servers of core: %v", completed.Core)
	}
	if got, want := completed.SecureServing.ServerCert.CertKey.CertFile, completed.ServiceTrust.CertFile; got != want {
		t.Errorf("serves with certificate %q, want the service's, %q", got, want)
	}
	if got := completed.Etcd.StorageConfig.Prefix; got != "/registry" {
		t.Errorf("etcd prefix %q, want kube-apiserver's", got)
	}
}

func TestCompleteAcceptsWhatConcernsOtherServices(t *testing.T) {
	_, err := complete(t, servicetest.Flags{
		"runtime-config": "batch/v1=true,apiregistration.k8s.io/v1=true,api/all=true,api/v1=true,v1/pods=true,api/legacy=false",
		"feature-gates":  "PodLevelResources=true",
	})
	assert.NoError(t, err)
}

func TestCoreIsFoundByAFile(t *testing.T) {
	write := func(servers ...string) (path string) {
		path = filepath.Join(t.TempDir(), "backends.yaml")
		b := addresses.Backends{
			Core: addresses.Replicas{Servers: servers}, Extensions: addresses.Replicas{Servers: []string{"https://127.0.0.1:1"}},
		}
		require.NoError(t, b.Write(path))
		return path
	}
	completed, err := complete(t, servicetest.Flags{"core-servers": "", "backends-file": write("https://127.0.0.1:6444", "https://127.0.0.1:6445")})
	require.NoError(t, err)
	if len(completed.Core) != 2 || completed.Core[1].Address() != "127.0.0.1:6445" || completed.Backends == nil {
		t.Errorf("servers of core: %v of %v", completed.Core, completed.Backends)
	}
	named, err := complete(t, servicetest.Flags{"core-servers": "", "backends-file": write("dns:///core:6444")})
	require.NoError(t, err)
	assert.Equal(t, []addresses.Location{{Host: "core", Port: "6444", IsName: true}}, named.Core)
	for _, test := range []struct {
		name, path, list, want string
	}{
		{"a list too", write("https://127.0.0.1:6444"), "https://127.0.0.1:6444", "--backends-file takes the place of --core-servers"},
		{"no file", filepath.Join(t.TempDir(), "missing"), "", "--backends-file: cannot read"},
	} {
		_, err := complete(t, servicetest.Flags{"core-servers": test.list, "backends-file": test.path})
		assert.ErrorContains(t, err, test.want, test.name)
	}
}

func TestPartition(t *testing.T) {
	flags := servicetest.Flags{"partition": "big", "partition-groups": "big=*.example.com", "aggregator-servers": "https://127.0.0.1:6443"}
	completed, err := complete(t, flags)
	require.NoError(t, err)
	assert.Equal(t, "extensions-big", completed.Name)
	assert.True(t, completed.OwnPartition.Has("boats.a.example.com"))
	assert.False(t, completed.OwnPartition.Has("boats.example.com"))
	o := New()
	o.PartitionGroups = []string{"a=*.example.com", "b=x.example.com"}
	_, err = servicetest.Complete(t, o, goodFlags(t))
	require.ErrorContains(t, err, "--partition-groups: partitions a and b overlap: *.example.com and x.example.com have groups in common")
	_, err = complete(t, flags.With(servicetest.Flags{"aggregator-servers": ""}))
	require.ErrorContains(t, err, "--partition needs the aggregator (--aggregator-servers)")

	path := filepath.Join(t.TempDir(), "backends.yaml")
	replicas := addresses.Replicas{Servers: []string{"https://127.0.0.1:1"}}
	b := addresses.Backends{
		Core: replicas, Extensions: replicas, Aggregator: replicas,
		Services: map[string]addresses.Service{"extensions-big": {Replicas: replicas, Groups: []string{"example.com"}}},
	}
	require.NoError(t, b.Write(path))
	inFile := servicetest.Flags{"core-servers": "", "backends-file": path}
	completed, err = complete(t, inFile)
	require.NoError(t, err)
	assert.Equal(t, "extensions", completed.Name)
	assert.False(t, completed.OwnPartition.HasGroup("example.com"))
	assert.True(t, completed.OwnPartition.HasGroup("apiextensions.k8s.io"))
	_, err = complete(t, inFile.With(servicetest.Flags{"partition-groups": "big=example.com"}))
	require.ErrorContains(t, err, "--backends-file takes the place of --partition-groups")
}

func TestWrongFlagsAreRefused(t *testing.T) {
	servicetest.TestRefusals(t, New, goodFlags(t), []string{"core-servers"}, []servicetest.Refusal{
		{Name: "no server of core", Flag: "core-servers", Value: "", Want: "--core-servers: required"},
		{Name: "a server of core without TLS", Flag: "core-servers", Value: "http://core", Want: `"http://core" is not of the form https://host:port`},
		{Name: "a server of core with a path", Flag: "core-servers", Value: "https://core/x", Want: "is not of the form"},
		{Name: "a server of core that is no URL", Flag: "core-servers", Value: "://", Want: "--core-servers"},
		{Name: "an address of gRPC without a port", Flag: "grpc-bind-address", Value: "127.0.0.1", Want: "--grpc-bind-address: "},
		{Name: "an admission plugin for built-in resources", Flag: "enable-admission-plugins", Value: "LimitRanger", Want: "--enable-admission-plugins: LimitRanger does not belong here but to core"},
		{Name: "that it is off", Flag: "disable-admission-plugins", Value: "ServiceAccount", Want: "--disable-admission-plugins: ServiceAccount does not belong here but to core"},
		{Name: "an unknown admission plugin", Flag: "enable-admission-plugins", Value: "Nope", Want: `enable-admission-plugins plugin "Nope" is unknown`},
		{Name: "an unknown partition", Flag: "partition", Value: "big", Want: `--partition: no API groups are given for "big"`},
		{Name: "a built-in group", Flag: "partition-groups", Value: "big=apps", Want: "--partition-groups: partition big: apps has the group apps, which is built in"},
		{Name: "a partition without groups", Flag: "partition-groups", Value: "big=", Want: "--partition-groups: partition big: name at least one API group"},
		{Name: "all groups", Flag: "partition-groups", Value: "big=*", Want: `--partition-groups: partition big: "*" matches every API group`},
		{Name: "an unknown group", Flag: "runtime-config", Value: "nope.io/v1=true", Want: "unknown api groups"},
	}...)
}

func TestGroupsWithTheirOwnEtcd(t *testing.T) {
	flags := servicetest.Flags{"etcd-cafile": "ca.crt", "etcd-compaction-interval": "0", "group-etcd-servers": "*.example.com=https://a:1,https://b:1"}
	completed, err := complete(t, flags)
	require.NoError(t, err)
	own, ok := completed.GroupEtcds.Of("a.example.com")
	require.True(t, ok)
	assert.Equal(t, []string{"https://a:1", "https://b:1"}, own.Transport.ServerList)
	assert.Equal(t, "ca.crt", own.Transport.TrustedCAFile)
	assert.Equal(t, completed.Etcd.StorageConfig.Prefix, own.Prefix)
	assert.NotZero(t, own.CompactionInterval, "who compacts the shared etcd does not compact this one")
	_, ok = completed.GroupEtcds.Of("example.com")
	assert.False(t, ok)

	e := newGroupEtcds(completed.Etcd)
	e.Servers = []string{"a.com=https://a:1", "b.com=https://b:1"}
	e.CAFiles, e.CertFiles = []string{"all=x.crt", "b.com=b.crt"}, []string{"b.com=client.crt"}
	require.Empty(t, e.validate())
	ofA, _ := e.Of("a.com")
	ofB, _ := e.Of("b.com")
	assert.Equal(t, []string{"all=x.crt", "b.crt", "", "client.crt"},
		[]string{ofA.Transport.TrustedCAFile, ofB.Transport.TrustedCAFile, ofA.Transport.CertFile, ofB.Transport.CertFile})
}

func TestWrongEtcdsOfGroups(t *testing.T) {
	for _, test := range []struct {
		name, want string
		servers    []string
	}{
		{"no server", `"a.com" is not of the form GROUP=URL[,URL...]`, []string{"a.com"}},
		{"no URL", `"a" is not a URL such as https://127.0.0.1:2379`, []string{"a.com=a"}},
		{"a built-in group", "apps has the group apps, which is built in", []string{"apps=https://a:1"}},
		{"everything", `"*" matches every API group`, []string{"*=https://a:1"}},
		{"two for a group", "*.a.com and b.a.com have groups in common", []string{"*.a.com=https://a:1", "b.a.com=https://b:1"}},
		{"files only", "required for the files of its etcds", nil},
	} {
		e := newGroupEtcds(newEtcdOptions())
		e.Servers, e.CAFiles = test.servers, []string{"ca.crt"}
		errs := e.validate()
		require.Len(t, errs, 1, test.name)
		assert.Contains(t, errs[0].Error(), "--group-etcd-servers: "+test.want, test.name)
	}
}
