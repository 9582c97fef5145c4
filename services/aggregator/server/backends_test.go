// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/options"
)

// at is one replica at an address, with gRPC at port 2.
func at(address string) addresses.Replicas {
	return addresses.Replicas{Servers: []string{"https://" + address + ":1"}, GRPC: []string{address + ":2"}}
}

// newBackends returns a configuration with the backends core, extensions, search and wardle.
func newBackends(t *testing.T) *Config {
	t.Helper()
	pki := connectionstest.NewPKI(t)
	o := options.New()
	o.ServiceTrust = trust.Options{CAFile: pki.CAFile, CertFile: pki.CertFile, KeyFile: pki.KeyFile}
	c := &Config{options: &options.Completed{Options: o, Backends: &addresses.Backends{
		Core: at("127.0.0.1"), Extensions: at("127.0.0.2"),
		Services: map[string]addresses.Service{"wardle": {Replicas: at("127.0.0.4")}, "search": {Replicas: at("127.0.0.3")}},
	}}}
	require.NoError(t, c.locateBackends())
	return c
}

func names(of backends) []string {
	var names []string
	for _, b := range of {
		names = append(names, b.Name())
	}
	return names
}

func TestOnlyCoreAndExtensionsAreRequired(t *testing.T) {
	c := newBackends(t)
	assert.Equal(t, []string{"core", "extensions", "search", "wardle"}, names(c.backends))
	assert.Equal(t, []string{"core", "extensions"}, names(c.backends.required()))
	assert.Equal(t, c.backends[0], c.core)
	assert.Equal(t, c.backends[1], c.extensions)
}

func TestClientsFindAGroupVersionOfItsOwnerOnly(t *testing.T) {
	c := newBackends(t)
	gv := schema.GroupVersion{Group: "wardle.example.com", Version: "v1"}
	found := func() (by []string) {
		for _, b := range c.backends {
			if c.serving(b)(gv) {
				by = append(by, b.Name())
			}
		}
		return by
	}
	assert.Equal(t, []string{"core", "extensions"}, found(), "without an APIService")
	service := &apiregistrationv1.APIService{}
	service.Spec.Group, service.Spec.Version = gv.Group, gv.Version
	for owner, want := range map[string][]string{"wardle": {"wardle"}, "search": {"search"}, "extensions": {"core", "extensions"}} {
		service.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "tripod-system", Name: owner}
		c.table.SetAPIService(service, nil)
		assert.Equal(t, want, found(), "with an APIService of %s", owner)
	}
}

func TestTheFileSaysWhereBackendsAreAndNotWhichThereAre(t *testing.T) {
	c := newBackends(t)
	c.setBackends(&addresses.Backends{
		Core: at("127.0.0.11"), Extensions: at("127.0.0.2"),
		Services: map[string]addresses.Service{"wardle": {Replicas: at("127.0.0.14")}, "new": {Replicas: at("127.0.0.15")}},
	})
	assert.Equal(t, []string{"core", "extensions", "search", "wardle"}, names(c.backends))
	for i, address := range []string{"127.0.0.11", "127.0.0.2", "127.0.0.3", "127.0.0.14"} {
		grpc, known := c.backends[i].grpc(address + ":1")
		assert.True(t, known, "%s at %s", c.backends[i].Name(), address)
		assert.Equal(t, address+":2", grpc)
	}
}
