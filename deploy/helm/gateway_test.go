// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/admin/certs/secrets"
)

// behindGateway are values with routes for the API and for agents.
const behindGateway = "gateway: {host: api.example.com, parentRefs: [{name: public, namespace: gateways, sectionName: api}], " +
	"konnectivityParentRefs: [{name: public, namespace: gateways, sectionName: tunnels, port: 8132}]}"

// TestRoutesLeadToServices has a Gateway pass clients to the aggregators, and agents to the servers of konnectivity.
func TestRoutesLeadToServices(t *testing.T) {
	r, _ := konnectivity(t, behindGateway, "service: {port: 8443}")
	checkAccepted(t, r)
	for name, want := range map[string]struct {
		host, listener string
		port           int32
	}{
		"tripod":              {"api.example.com", "api", 8443},
		"tripod-konnectivity": {"tunnel.example.com", "tunnels", 8132},
	} {
		route := find(t, r, "TLSRoute", name, &tlsRoute{})
		assert.Equal(t, "gateway.networking.k8s.io/v1", route.APIVersion)
		assert.Equal(t, []string{want.host}, route.Spec.Hostnames)
		require.Len(t, route.Spec.ParentRefs, 1)
		assert.Equal(t, want.listener, route.Spec.ParentRefs[0].SectionName)
		require.Len(t, route.Spec.Rules, 1)
		require.Len(t, route.Spec.Rules[0].BackendRefs, 1)
		backend := route.Spec.Rules[0].BackendRefs[0]
		service := find(t, r, "Service", backend.Name, &corev1.Service{})
		require.Len(t, service.Spec.Ports, 1)
		assert.Equal(t, want.port, backend.Port)
		assert.Equal(t, service.Spec.Ports[0].Port, backend.Port)
	}
}

// TestTheCertificateHasTheHostOfTheRoute is needed because a Gateway that passes TLS through has no certificate.
func TestTheCertificateHasTheHostOfTheRoute(t *testing.T) {
	for values, want := range map[string]bool{
		"gateway: {host: api.example.org, parentRefs: [{name: public}]}": true,
		"gateway: {host: api.example.org}":                               false,
	} {
		var all secrets.Config
		config := find(t, render(t, values), "ConfigMap", "tripod-certificates", &corev1.ConfigMap{}).Data["config.yaml"]
		require.NoError(t, yaml.UnmarshalStrict([]byte(config), &all))
		for _, c := range all.Certificates {
			if c.Secret == "tripod-apiserver" {
				assert.Equal(t, want, slices.Contains(c.DNSNames, "api.example.org"), values)
			}
		}
	}
}

func TestRoutesNeedHosts(t *testing.T) {
	const same = "gateway: {parentRefs: [{name: a}], konnectivityParentRefs: [{name: a}]}"
	const oneHost = "konnectivity: {endpoint: 'api.example.com:8132'}"
	for values, want := range map[string]string{
		"gateway: {parentRefs: [{name: public}]}":                                "gateway.host, or join.endpoint, is needed for a TLSRoute",
		"gateway: {parentRefs: [{name: public}], host: 192.0.2.7}":               "must be a name: clients name no address in TLS",
		"gateway: {parentRefs: [{namespace: public}], host: a}":                  "at '/gateway/parentRefs/0': missing property 'name'",
		"gateway: {parentRefs: [{name: public}], host: 'https://a'}":             "at '/gateway/host'",
		"gateway: {konnectivityParentRefs: [{name: public}]}":                    "gateway.konnectivityParentRefs needs konnectivity.enabled",
		"gateway: {consoleParentRefs: [{name: public}]}":                         "gateway.consoleParentRefs needs console.enabled",
		merged(t, withConsole, "gateway: {consoleParentRefs: [{name: public}]}"): "console.hosts is needed for a TLSRoute",
		merged(t, withConsole, "{console: {hosts: [a.example.com]}, gateway: {host: a.example.com, parentRefs: [{name: a}], consoleParentRefs: [{name: b}]}}"): "give the console a host of its own",
		merged(t, withKonnectivity, oneHost, same): "have the same host, api.example.com, at the same listener",
	} {
		_, err := helmTemplate(t, values)
		require.ErrorContains(t, err, want, values)
	}
	r, _ := konnectivity(t, "gateway: {parentRefs: [{name: a, port: 443}], konnectivityParentRefs: [{name: a, port: 8132}]}", oneHost)
	assert.Equal(t, []string{"api.example.com"}, find(t, r, "TLSRoute", "tripod", &tlsRoute{}).Spec.Hostnames, "the host of join.endpoint")
}
