// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package groupcheck

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/base/storage/etcdtest"
	"github.com/tripod-k8s/tripod/base/storage/placement"
)

func put(t *testing.T, etcd *clientv3.Client, ops ...clientv3.Op) {
	t.Helper()
	_, err := etcd.Txn(t.Context()).Then(ops...).Commit()
	require.NoError(t, err)
}

// TestPlannedEtcds plans the etcds of a cluster with a group in the shared etcd, and two in one of their own.
func TestPlannedEtcds(t *testing.T) {
	shared, own, other := etcdtest.Start(t), etcdtest.Start(t), etcdtest.Start(t)
	for _, name := range []string{"boats.a.example.org", "cars.a.example.org", "boats.b.example.org", "boats.example.com"} {
		put(t, shared, clientv3.OpPut("/registry/apiextensions.k8s.io/customresourcedefinitions/"+name, "{}"))
	}
	for _, group := range []string{"a.example.org", "b.example.org"} {
		keys, record := placement.KeysOf("/registry", group), placement.Record{Own: true, Move: "move of " + group}
		put(t, shared, keys.Put(record))
		put(t, own, keys.Put(record))
	}
	back := placement.Record{Own: false, Move: "back"}
	put(t, shared, placement.KeysOf("/registry", "example.com").Put(back))
	url := func(c *clientv3.Client) string { return c.Endpoints()[0] }
	for _, test := range []struct {
		name    string
		servers []string
		want    string
	}{
		{"as before", []string{"*.example.org=" + url(own)}, ""},
		{"in two partitions", []string{"a.example.org=" + url(own), "b.example.org=" + url(own)}, ""},
		{"and more", []string{"*.example.org=" + url(own), "example.com=" + url(other)}, ""},
		{"none", nil, "the objects of a.example.org, b.example.org are in an etcd that no partition would have: keep it, or first move them: " +
			"tripod migrate groups --to extensions a.example.org b.example.org"},
		{"a shorter list", []string{"a.example.org=" + url(own)}, "the objects of b.example.org are in an etcd that no partition would have: " +
			"keep it, or first move them: tripod migrate groups --to extensions b.example.org"},
		{"another etcd", []string{"*.example.org=" + url(other)}, "the planned etcd " + url(other) + " does not have the objects of a.example.org: " +
			"keep the etcd of before, or first move them: tripod migrate groups --to extensions a.example.org"},
	} {
		planned, err := Parse(test.servers, nil, nil, nil, nil)
		require.NoError(t, err, test.name)
		err = Check(t.Context(), shared, "registry/", planned)
		if test.want == "" {
			assert.NoError(t, err, test.name)
			continue
		}
		if assert.Error(t, err, test.name) {
			assert.Contains(t, err.Error(), test.want, test.name)
		}
	}
	t.Run("an etcd that is away", func(t *testing.T) {
		planned, err := Parse([]string{"*.example.org=http://127.0.0.1:1"}, nil, nil, nil, nil)
		require.NoError(t, err)
		assert.ErrorContains(t, Check(t.Context(), shared, "/registry", planned), "the planned etcd http://127.0.0.1:1 for the API group a.example.org does not answer")
		planned, err = Parse([]string{"*.example.org=http://127.0.0.1:1"}, nil, nil, nil, []string{"*.example.org"})
		require.NoError(t, err)
		assert.NoError(t, Check(t.Context(), shared, "/registry", planned), "it is stopped")
	})
	t.Run("the shared etcd is away", func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorContains(t, Check(ended, shared, "/registry", nil), "cannot read CustomResourceDefinitions")
	})
}

func TestParse(t *testing.T) {
	etcds, err := Parse([]string{"*.a.com=https://a:1,https://b:1", "b.com=https://c:1"}, []string{"b.com=ca"}, []string{"b.com=cert"}, []string{"*.a.com=key"}, nil)
	require.NoError(t, err)
	assert.Equal(t, []Etcd{
		{Pattern: "*.a.com", Servers: []string{"https://a:1", "https://b:1"}, KeyFile: "key"},
		{Pattern: "b.com", Servers: []string{"https://c:1"}, CAFile: "ca", CertFile: "cert"},
	}, etcds)
	for _, test := range []struct {
		servers, files []string
		want           string
	}{
		{[]string{"a.com"}, nil, `"a.com" is not of the form GROUP=URL[,URL...]`},
		{[]string{"*=https://a:1"}, nil, `"*" matches every API group`},
		{[]string{"apps=https://a:1"}, nil, "apps has the group apps, which is built in"},
		{[]string{"a.com=https://a:1"}, []string{"b.com=ca"}, `"b.com=ca" is a file for b.com, which has no etcd of its own`},
	} {
		_, err := Parse(test.servers, test.files, nil, nil, nil)
		assert.ErrorContains(t, err, test.want)
	}
}
