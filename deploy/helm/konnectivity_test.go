// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/admin/certs/secrets"
)

const withKonnectivity = "{controllerManager: {enabled: true}, join: {enabled: true, endpoint: 'api.example.com:443'}, " +
	"konnectivity: {enabled: true, endpoint: 'tunnel.example.com:8132'}}"

// changesOfKonnectivity returns the changes of servers and agents.
func changesOfKonnectivity() []change {
	all := []change{
		{path: "konnectivity.enabled", value: "true", want: "command: [/proxy-server]", with: "{controllerManager: {enabled: true}, join: {enabled: true, endpoint: 'a:443'}, konnectivity: {endpoint: 'a:8132'}}"},
		{path: "konnectivity.endpoint", value: "'192.0.2.7:30132'", want: "- --proxy-server-host=192.0.2.7\n                - --proxy-server-port=30132\n"},
		{path: "konnectivity.service.port", value: "8133", want: "port: 8133\n      targetPort: konnectivity"},
		{path: "konnectivity.service.nodePort", value: "30132", want: "nodePort: 30132", with: "service: {type: NodePort}"},
		{path: "konnectivity.service.annotations", value: "{example.com/lb: tunnel}", want: "example.com/lb: tunnel"},
		{path: "konnectivity.agent.nodeSelector", value: "{zone: far}", want: "zone: far"},
		{path: "konnectivity.agent.tolerations", value: "[{key: far, operator: Exists}]", want: "- key: far"},
	}
	for _, end := range []string{"server", "agent"} {
		path := "konnectivity." + end + "."
		all = append(all,
			change{path: path + "image.registry", value: "registry.example.com", want: "image: registry.example.com/kas-network-proxy/proxy-" + end + ":", alone: true},
			change{path: path + "image.repository", value: "mirror/" + end, want: "image: registry.k8s.io/mirror/" + end + ":", alone: true},
			change{path: path + "image.tag", value: "v9", want: "proxy-" + end + ":v9", alone: true},
			change{path: path + "image.digest", value: "sha256:" + digest, want: "proxy-" + end + ":v0.36.0@sha256:" + digest, alone: true},
			change{path: path + "image.pullPolicy", value: "Never", want: "imagePullPolicy: Never", alone: true},
			change{path: path + "resources", value: "{limits: {memory: 77Mi}}", want: "memory: 77Mi", alone: true},
			change{path: path + "extraArgs", value: "[--xfr-channel-size=7]", want: `- "--xfr-channel-size=7"`, alone: true},
		)
	}
	for i := range all[1:] {
		c := &all[i+1]
		c.with = withKonnectivity[:len(withKonnectivity)-1] + strings.TrimSuffix(", "+c.with, ", ") + "}"
	}
	return all
}

// konnectivity returns a release with konnectivity, and what its Job applies in Tripod.
func konnectivity(t *testing.T, values ...string) (r, applied release) {
	t.Helper()
	r = render(t, merged(t, append([]string{withKonnectivity}, values...)...))
	return r, parse(t, find(t, r, "ConfigMap", "tripod-konnectivity-agents", &corev1.ConfigMap{}).Data["manifests.yaml"])
}

// server returns the server beside a service.
func server(t *testing.T, r release, service string) corev1.Container {
	t.Helper()
	spec := find(t, r, "Deployment", "tripod-"+service, &appsv1.Deployment{}).Spec.Template.Spec
	require.Len(t, spec.InitContainers, 1)
	return spec.InitContainers[0]
}

// flag returns the value of a flag of a container.
func flagValue(t *testing.T, c corev1.Container, name string) string {
	t.Helper()
	i := slices.IndexFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--"+name+"=") })
	require.GreaterOrEqual(t, i, 0, "%s has no flag %s", c.Name, name)
	_, value, _ := strings.Cut(c.Args[i], "=")
	return value
}

func TestServicesUseTheServerBesideThem(t *testing.T) {
	r, _ := konnectivity(t, "services: {wardle: {image: {repository: a}}}")
	checkAccepted(t, r)
	file := filepath.Join(t.TempDir(), "egress.yaml")
	require.NoError(t, os.WriteFile(file, []byte(find(t, r, "ConfigMap", "tripod-konnectivity", &corev1.ConfigMap{}).Data["egress.yaml"]), 0o600))
	config, err := egressselector.ReadEgressSelectorConfiguration(file)
	require.NoError(t, err)
	require.Empty(t, egressselector.ValidateEgressSelectorConfiguration(config))
	require.Len(t, config.EgressSelections, 1, "etcd and hosts of URLs are reached directly")
	assert.Equal(t, "cluster", config.EgressSelections[0].Name)
	for _, service := range services {
		s := server(t, r, service)
		assert.Equal(t, corev1.ContainerRestartPolicyAlways, *s.RestartPolicy, "it runs as long as the service")
		assert.Equal(t, config.EgressSelections[0].Connection.Transport.UDS.UDSName, flagValue(t, s, "uds-name"))
		spec := find(t, r, "Deployment", "tripod-"+service, &appsv1.Deployment{}).Spec.Template.Spec
		assert.Equal(t, "/etc/tripod/konnectivity/egress.yaml", flagValue(t, spec.Containers[0], "egress-selector-config-file"))
		assert.False(t, mounts(spec.Containers[0], "konnectivity-pki"), "%s has the key of the server", service)
		assert.True(t, mounts(s, "konnectivity-pki"))
		assert.False(t, mounts(s, "pki"), "the server has the keys of %s", service)
	}
	assert.Empty(t, find(t, r, "Deployment", "tripod-wardle", &appsv1.Deployment{}).Spec.Template.Spec.InitContainers)
}

func mounts(c corev1.Container, volume string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
}

func TestServersAndAgentsKnowEachOther(t *testing.T) {
	r, applied := konnectivity(t)
	agents := find(t, applied, "DaemonSet", "konnectivity-agent", &appsv1.DaemonSet{})
	agent, spec := agents.Spec.Template.Spec.Containers[0], agents.Spec.Template.Spec
	for _, service := range services {
		s := server(t, r, service)
		assert.Equal(t, agents.Namespace, flagValue(t, s, "agent-namespace"))
		assert.Equal(t, spec.ServiceAccountName, flagValue(t, s, "agent-service-account"))
		assert.Equal(t, spec.Volumes[0].Projected.Sources[0].ServiceAccountToken.Audience, flagValue(t, s, "authentication-audience"))
		assert.Equal(t, flagValue(t, agent, "lease-namespace"), flagValue(t, s, "lease-namespace"))
	}
	var all secrets.Config
	require.NoError(t, yaml.UnmarshalStrict([]byte(find(t, r, "ConfigMap", "tripod-certificates", &corev1.ConfigMap{}).Data["config.yaml"]), &all))
	i := slices.IndexFunc(all.Certificates, func(c secrets.CertificateConfig) bool { return c.Secret == "tripod-konnectivity" })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, []string{flagValue(t, agent, "proxy-server-host")}, all.Certificates[i].DNSNames)
	delegator := find(t, applied, "ClusterRoleBinding", "system:konnectivity-server", &rbacv1.ClusterRoleBinding{})
	assert.Equal(t, all.Certificates[i].CommonName, delegator.Subjects[0].Name)
	kubeconfig, err := clientcmd.Load([]byte(find(t, r, "ConfigMap", "tripod-konnectivity", &corev1.ConfigMap{}).Data["kubeconfig.yaml"]))
	require.NoError(t, err)
	assert.Equal(t, flagValue(t, server(t, r, "core"), "cluster-cert"), kubeconfig.AuthInfos["konnectivity-server"].ClientCertificate)
}

func TestWhatKonnectivityCreatesIsAcceptedAndRestricted(t *testing.T) {
	_, applied := konnectivity(t)
	checkAccepted(t, applied)
	template := find(t, applied, "DaemonSet", "konnectivity-agent", &appsv1.DaemonSet{}).Spec.Template
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec))
	assert.True(t, result.Allowed, result.ForbiddenDetail())
	for _, object := range applied.objects {
		if namespaced := object.GetKind() != "Namespace" && object.GetKind() != "ClusterRoleBinding"; namespaced {
			assert.Equal(t, "konnectivity", object.GetNamespace(), "%s goes with the namespace", object.GetKind())
		}
	}
}

func TestKonnectivityIsOfThePinnedVersion(t *testing.T) {
	version := required(t, "../../tools/go.mod", "sigs.k8s.io/apiserver-network-proxy")
	r, applied := konnectivity(t)
	assert.Equal(t, "registry.k8s.io/kas-network-proxy/proxy-server:"+version, server(t, r, "core").Image)
	agent := find(t, applied, "DaemonSet", "konnectivity-agent", &appsv1.DaemonSet{}).Spec.Template.Spec.Containers[0]
	assert.Equal(t, "registry.k8s.io/kas-network-proxy/proxy-agent:"+version, agent.Image)
}

func TestAgentsReachServersAndServersReachTripod(t *testing.T) {
	r, _ := konnectivity(t, "networkPolicy: {clients: [{ipBlock: {cidr: 192.0.2.0/24}}], outside: [{ipBlock: {cidr: 198.51.100.0/24}}]}")
	policies := networkPolicies(t, r)
	own := find(t, r, "NetworkPolicy", "tripod-konnectivity", &networkingv1.NetworkPolicy{}).Spec
	require.Len(t, own.Ingress, 1)
	assert.Equal(t, "192.0.2.0/24", own.Ingress[0].From[0].IPBlock.CIDR)
	assert.Equal(t, flagValue(t, server(t, r, "core"), "agent-port"), own.Ingress[0].Ports[0].Port.String())
	pods := r.pods(t)
	aggregator := pods[slices.IndexFunc(pods, func(p pod) bool { return name(p) == "aggregator" })]
	for _, p := range pods {
		beside := slices.Contains(services, name(p))
		assert.Equal(t, beside, selects(t, &own.PodSelector, p), p.owner)
		if beside {
			assert.True(t, reaches(t, policies, p, aggregator, 6443), "the server in %s asks about tokens", p.owner)
		}
	}
}
