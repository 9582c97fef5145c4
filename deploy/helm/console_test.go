// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/admin/certs/secrets"
)

const (
	withConsole      = "{search: {enabled: true}, console: {enabled: true}}"
	withConsoleLogin = "{search: {enabled: true}, console: {enabled: true, oidc: {enabled: true, issuerURL: https://login.example.com, clientID: one}}}"
)

// changesOfConsole returns the changes of the console. It has some of those of services.
func changesOfConsole() []change {
	all := []change{
		{path: "enabled", value: "true", want: "- --host=localhost:8443", with: withSearch},
		{path: "hosts", value: "[console.example.org]", want: "- --host=console.example.org"},
		{path: "certificateSecret", value: "browsers-trust-it", want: "name: browsers-trust-it"},
		{path: "oidc.enabled", value: "true", want: "- --oidc-issuer-url=https://a", with: "{search: {enabled: true}, console: {enabled: true, oidc: {issuerURL: https://a, clientID: b}}}"},
		{path: "oidc.issuerURL", value: "https://other.example.com", want: "- --oidc-issuer-url=https://other.example.com", with: withConsoleLogin},
		{path: "oidc.clientID", value: "two", want: "- --oidc-client-id=two", with: withConsoleLogin},
		{path: "oidc.clientSecret", value: "of-client", want: "- --oidc-client-secret-file=/etc/tripod/oidc/client-secret", with: withConsoleLogin},
		{path: "oidc.caSecret", value: "login-ca", want: "- --oidc-ca-file=/etc/tripod/oidc/ca.crt", with: withConsoleLogin},
		{path: "oidc.egress.to", value: "[{ipBlock: {cidr: 192.0.2.7/32}}]", want: "cidr: 192.0.2.7/32", with: withConsoleLogin},
		{path: "oidc.egress.ports", value: "[8443, 8444]", want: "- {port: 8444}", with: withConsoleLogin},
		{path: "oidc.scopes", value: "[email, offline_access]", want: "- --oidc-scopes=email,offline_access", with: withConsoleLogin},
		{path: "sessions.idleTimeout", value: "7m", want: "- --session-idle-timeout=7m"},
		{path: "sessions.lifetime", value: "77m", want: "- --session-lifetime=77m"},
		{path: "service.type", value: "LoadBalancer", want: "type: LoadBalancer", alone: true},
		{path: "service.port", value: "8443", want: "- --host=tripod-console.control.svc:8443", alone: true},
		{path: "service.nodePort", value: "30444", want: "nodePort: 30444", with: "{search: {enabled: true}, console: {enabled: true, service: {type: NodePort}}}"},
		{path: "service.loadBalancerSourceRanges", value: "[192.0.2.0/24]", want: "- 192.0.2.0/24", with: "{search: {enabled: true}, console: {enabled: true, service: {type: LoadBalancer}}}"},
		{path: "service.externalTrafficPolicy", value: "Local", want: "externalTrafficPolicy: Local", with: "{search: {enabled: true}, console: {enabled: true, service: {type: LoadBalancer}}}"},
		{path: "service.annotations", value: "{example.com/lb: console}", want: "example.com/lb: console"},
		{path: "extraArgs", value: "[--bind-address=192.0.2.7]", want: `- "--bind-address=192.0.2.7"`},
	}
	for _, c := range serviceChanges {
		section, _, _ := strings.Cut(c.path, ".")
		if !slices.Contains([]string{"autoscaling", "shutdown", "goGC", "extraArgs"}, section) {
			c.want = strings.ReplaceAll(c.want, "SERVICE", "console")
			c.value = strings.ReplaceAll(c.value, "name: tmp", "name: pki") // it writes nothing, so it has no tmp
			if c.with != "" {
				c.with = "{search: {enabled: true}, console: {enabled: true, podDisruptionBudget: {enabled: false}}}"
			}
			all = append(all, c)
		}
	}
	for i := range all {
		all[i].path = "console." + all[i].path
		if all[i].with == "" {
			all[i].with = withConsole
		}
	}
	return append(all,
		change{path: "gateway.consoleParentRefs", value: "[{name: browsers}]", want: "- name: browsers", with: "{search: {enabled: true}, console: {enabled: true, hosts: [a.example.com]}}"},
		change{path: "networkPolicy.browsers", value: "[{namespaceSelector: {matchLabels: {may: browse}}}]", want: "may: browse", with: withConsole},
	)
}

// TestTheConsoleHasNoCredentials looks at everything with which its pod could be more than the user who has signed in.
func TestTheConsoleHasNoCredentials(t *testing.T) {
	r := render(t, merged(t, withConsole, "service: {port: 8443}"))
	checkAccepted(t, r)
	pod := find(t, r, "Deployment", "tripod-console", &appsv1.Deployment{}).Spec.Template.Spec
	assert.False(t, *pod.AutomountServiceAccountToken)
	require.Len(t, pod.Containers, 1)
	require.Len(t, pod.Volumes, 1)
	var mounted []string
	for _, source := range pod.Volumes[0].Projected.Sources {
		require.NotNil(t, source.Secret)
		mounted = append(mounted, source.Secret.Name)
	}
	assert.Equal(t, []string{"tripod-console", "tripod-console"}, mounted)
	args := pod.Containers[0].Args
	assert.Equal(t, []string{"console", "serve", "--server=https://tripod.control.svc:8443"}, args[:3])
	for _, arg := range args {
		assert.NotContains(t, arg, "kubeconfig")
		assert.NotContains(t, arg, "oidc", "users sign in with a token only")
	}
	for _, object := range r.objects {
		if strings.HasSuffix(object.GetKind(), "Binding") {
			assert.NotContains(t, mustYAML(t, object.Object), "tripod-console")
		}
	}
	assert.Equal(t, secrets.CertificateConfig{
		Secret: "tripod-console", Authority: "tripod-ca", CommonName: "tripod-console", Usages: []string{"server"},
		DNSNames: []string{"localhost", "tripod-console.control.svc"},
	}, certificateOf(t, r, "tripod-console"), "no client")
}

// TestBrowsersReachTheConsole follows the names and ports from a Gateway to the container.
func TestBrowsersReachTheConsole(t *testing.T) {
	r := render(t, merged(t, withConsole, "{console: {hosts: ['console.example.com:8443', 192.0.2.7], service: {port: 444}}, gateway: {consoleParentRefs: [{name: public}]}}",
		"networkPolicy: {clients: [{ipBlock: {cidr: 192.0.2.0/24}}], outside: [{ipBlock: {cidr: 192.0.2.0/24}}]}"))
	checkAccepted(t, r)
	route := find(t, r, "TLSRoute", "tripod-console", &tlsRoute{})
	assert.Equal(t, []string{"console.example.com"}, route.Spec.Hostnames)
	backend := route.Spec.Rules[0].BackendRefs[0]
	service := find(t, r, "Service", backend.Name, &corev1.Service{})
	assert.Equal(t, backend.Port, service.Spec.Ports[0].Port)
	container := find(t, r, "Deployment", "tripod-console", &appsv1.Deployment{}).Spec.Template.Spec.Containers[0]
	assert.True(t, listens(container, service.Spec.Ports[0].TargetPort.StrVal))
	assert.Subset(t, container.Args, []string{
		"--host=console.example.com:8443", "--host=192.0.2.7", "--host=tripod-console.control.svc:444", "--secure-port=8443",
	})
	assert.NotContains(t, container.Args, "--host=localhost:8443", "other pages of a user's machine are at this host")
	for name, probe := range map[string]*corev1.Probe{"startup": container.StartupProbe, "readiness": container.ReadinessProbe, "liveness": container.LivenessProbe} {
		assert.Equal(t, "probes", probe.HTTPGet.Port.StrVal, "browsers can take all connections of the other port: %s", name)
	}
	assert.True(t, listens(container, "probes"))
	certificate := certificateOf(t, r, "tripod-console")
	assert.Equal(t, []string{"console.example.com", "tripod-console.control.svc"}, certificate.DNSNames)
	assert.Equal(t, []string{"192.0.2.7"}, certificate.IPAddresses)

	pods := map[string]pod{}
	for _, p := range r.pods(t) {
		pods[name(p)] = p
	}
	policies := networkPolicies(t, r)
	assert.True(t, reaches(t, policies, pods["console"], pods["aggregator"], 6443))
	for _, other := range []string{"core", "extensions", "search", "etcd"} {
		assert.False(t, reaches(t, policies, pods["console"], pods[other], 6443), other)
		assert.False(t, reaches(t, policies, pods["console"], pods[other], 2379), other)
	}
	policy := find(t, r, "NetworkPolicy", "tripod-console", &networkingv1.NetworkPolicy{}).Spec
	assert.Len(t, policy.Egress, 1, "without OIDC, only the aggregator")
	assert.Empty(t, policy.Ingress[0].From, "browsers are anywhere")
	require.Len(t, policy.Ingress[0].Ports, 1)
	assert.Equal(t, 8443, policy.Ingress[0].Ports[0].Port.IntValue())
}

func TestTheConsoleReachesItsIssuerOnly(t *testing.T) {
	const outside = "networkPolicy: {outside: [{ipBlock: {cidr: 198.51.100.0/24}}]}"
	for name, test := range map[string]struct {
		values []string
		ports  []int
		cidr   string
	}{
		"by default":              {nil, []int{443}, ""},
		"at the port of its URL":  {[]string{"console: {oidc: {issuerURL: 'https://login.example.com:8443/realms/a:1'}}"}, []int{8443}, ""},
		"at an address of IPv6":   {[]string{"console: {oidc: {issuerURL: 'https://[2001:db8::1]/a'}}"}, []int{443}, ""},
		"where all issuers are":   {[]string{outside}, []int{443}, "198.51.100.0/24"},
		"where the values say so": {[]string{outside, "console: {oidc: {egress: {to: [{ipBlock: {cidr: 192.0.2.7/32}}], ports: [8443, 8444]}}}"}, []int{8443, 8444}, "192.0.2.7/32"},
	} {
		r := render(t, merged(t, append([]string{withConsoleLogin}, test.values...)...))
		checkAccepted(t, r)
		egress := find(t, r, "NetworkPolicy", "tripod-console", &networkingv1.NetworkPolicy{}).Spec.Egress
		require.Len(t, egress, 2, name)
		var ports []int
		for _, port := range egress[1].Ports {
			ports = append(ports, port.Port.IntValue())
		}
		assert.Equal(t, test.ports, ports, name)
		if test.cidr == "" {
			assert.Empty(t, egress[1].To, name)
			continue
		}
		require.Len(t, egress[1].To, 1, name)
		assert.Equal(t, test.cidr, egress[1].To[0].IPBlock.CIDR, name)
	}
}

// certificateOf returns what the certificate in a Secret is to be.
func certificateOf(t *testing.T, r release, secret string) secrets.CertificateConfig {
	t.Helper()
	var all secrets.Config
	require.NoError(t, yaml.UnmarshalStrict([]byte(find(t, r, "ConfigMap", "tripod-certificates", &corev1.ConfigMap{}).Data["config.yaml"]), &all))
	at := slices.IndexFunc(all.Certificates, func(c secrets.CertificateConfig) bool { return c.Secret == secret })
	require.GreaterOrEqual(t, at, 0)
	return all.Certificates[at]
}

func mustYAML(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	require.NoError(t, err)
	return string(text)
}
