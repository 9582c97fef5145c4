// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/admin/certs/secrets"
)

const (
	withControllers = "{controllerManager: {enabled: true}, scheduler: {enabled: true}}"
	withAddons      = "{controllerManager: {enabled: true}, join: {enabled: true, endpoint: 'api.example.com:443', coreDNS: {enabled: true}, kubeProxy: {enabled: true}}}"
	withJoin        = "{controllerManager: {enabled: true}, join: {enabled: true, endpoint: 'api.example.com:443'}}"
)

// controllers has the names of the values and of the component of each controller.
var controllers = map[string]string{"controllerManager": "controller-manager", "scheduler": "scheduler"}

// controllerChanges has the changes of each controller. SERVICE stands for the name of its values, COMPONENT for its own.
var controllerChanges = []change{
	{path: "enabled", value: "true", want: "command: [kube-COMPONENT]"},
	{path: "image.registry", value: "registry.example.com", want: "image: registry.example.com/kube-COMPONENT:", alone: true},
	{path: "image.repository", value: "mirror/COMPONENT", want: "image: registry.k8s.io/mirror/COMPONENT:", alone: true},
	{path: "image.tag", value: "v1.36.9", want: "/kube-COMPONENT:v1.36.9", alone: true},
	{path: "image.digest", value: "sha256:" + digest, want: "@sha256:" + digest + "\n", alone: true},
	{path: "image.pullPolicy", value: "Always", want: "imagePullPolicy: Always"},
	{path: "replicas", value: "4", want: "replicas: 4"},
	{path: "extraArgs", value: "[--profiling=false]", want: `- "--profiling=false"`},
}

// changesOfControllers returns the changes of all controllers. They have some of those of services.
func changesOfControllers() []change {
	own := slices.Clone(controllerChanges)
	for _, c := range serviceChanges {
		known := slices.ContainsFunc(own, func(o change) bool { return o.path == c.path })
		section, _, _ := strings.Cut(c.path, ".")
		if !known && !slices.Contains([]string{"autoscaling", "shutdown", "goGC", "extraArgs"}, section) {
			c.want = strings.ReplaceAll(c.want, "SERVICE", "COMPONENT")
			own = append(own, c)
		}
	}
	var all []change
	for values, component := range controllers {
		names := strings.NewReplacer("SERVICE", values, "COMPONENT", component)
		for _, c := range own {
			if c.path != "enabled" {
				c.with = strings.TrimSuffix("{SERVICE: {enabled: true, "+strings.TrimPrefix(c.with, "SERVICE: {"), "}") + "}}"
			}
			if c.path == "enabled" && values == "controllerManager" { // some of its controllers run anyway
				c.want = "- --controllers=*"
			}
			c.path, c.value, c.want, c.with = values+"."+c.path, names.Replace(c.value), names.Replace(c.want), names.Replace(c.with)
			all = append(all, c)
		}
	}
	return all
}

func TestControllersHaveIdentitiesOfTheirOwn(t *testing.T) {
	for _, provider := range []string{"", withManager} {
		r := render(t, merged(t, withControllers, provider))
		checkAccepted(t, r)
		for component, name := range map[string]string{"controller-manager": user.KubeControllerManager, "scheduler": user.KubeScheduler} {
			config, err := clientcmd.Load([]byte(find(t, r, "ConfigMap", "tripod-"+component, &corev1.ConfigMap{}).Data["kubeconfig.yaml"]))
			require.NoError(t, err)
			current := config.Contexts[config.CurrentContext]
			assert.Equal(t, "https://tripod.control.svc:443", config.Clusters[current.Cluster].Server)
			assert.Equal(t, "/etc/tripod/pki/own/tls.crt", config.AuthInfos[current.AuthInfo].ClientCertificate)
			assert.Contains(t, r.text, "commonName: "+name+"\n")
			assert.Contains(t, r.text, "- tripod-"+component+".control.svc\n", "the name in the certificate by which Prometheus knows it")
		}
	}
}

func TestOnlyTheControllerManagerHasTheKeyOfAnAuthority(t *testing.T) {
	r := render(t, merged(t, withControllers, withJoin))
	var all secrets.Config
	require.NoError(t, yaml.UnmarshalStrict([]byte(find(t, r, "ConfigMap", "tripod-certificates", &corev1.ConfigMap{}).Data["config.yaml"]), &all))
	for _, p := range r.pods(t) {
		for _, authority := range all.Authorities {
			want := name(p) == "controller-manager" && authority.Secret == "tripod-ca"
			assert.Equal(t, want, slices.Contains(p.secrets(), authority.Secret), "%s mounts %s", p.owner, authority.Secret)
		}
	}
}

func TestControllersAreOfTheVersionOfTripod(t *testing.T) {
	version := required(t, "../../go.mod", "k8s.io/kubernetes")
	r := render(t, withControllers)
	for _, component := range controllers {
		container := find(t, r, "Deployment", "tripod-"+component, &appsv1.Deployment{}).Spec.Template.Spec.Containers[0]
		assert.Equal(t, "registry.k8s.io/kube-"+component+":"+version, container.Image)
	}
}

// required returns the version of a module that a go.mod requires.
func required(t *testing.T, file, path string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	module, err := modfile.ParseLax(file, data, nil)
	require.NoError(t, err)
	i := slices.IndexFunc(module.Require, func(r *modfile.Require) bool { return r.Mod.Path == path })
	require.GreaterOrEqual(t, i, 0, "%s requires %s", file, path)
	return module.Require[i].Mod.Version
}

func TestTheControllerManagerGivesNodesAddressesIfItHasSome(t *testing.T) {
	for _, test := range []struct{ values, want, wantNot string }{
		{"{}", "--allocate-node-cidrs=false", "--cluster-cidr"},
		{"{clusterCIDR: '10.1.0.0/16,fd00::/64'}", "--allocate-node-cidrs=true\n            - --cluster-cidr=10.1.0.0/16,fd00::/64\n", "--allocate-node-cidrs=false"},
	} {
		r := render(t, merged(t, withControllers, test.values))
		assert.Contains(t, r.text, test.want)
		assert.NotContains(t, r.text, test.wantNot)
	}
}

func TestTheCertificateHasTheHostAtWhichNodesReachTheAPI(t *testing.T) {
	for endpoint, want := range map[string]string{
		"api.example.com:443": "dnsNames:api.example.com", "192.0.2.7:30080": "ipAddresses:192.0.2.7", "'[2001:db8::7]:443'": "ipAddresses:2001:db8::7",
	} {
		r := render(t, "{controllerManager: {enabled: true}, join: {enabled: true, endpoint: "+endpoint+"}}")
		checkAccepted(t, r)
		var all secrets.Config
		require.NoError(t, yaml.UnmarshalStrict([]byte(find(t, r, "ConfigMap", "tripod-certificates", &corev1.ConfigMap{}).Data["config.yaml"]), &all))
		i := slices.IndexFunc(all.Certificates, func(c secrets.CertificateConfig) bool { return c.Secret == "tripod-apiserver" })
		list, host, _ := strings.Cut(want, ":")
		assert.Contains(t, map[string][]string{"dnsNames": all.Certificates[i].DNSNames, "ipAddresses": all.Certificates[i].IPAddresses}[list], host)
	}
}

func TestTheConfigurationOfKubeletsIsOne(t *testing.T) {
	for values, want := range map[string]int32{"{}": 0, "{join: {kubeletConfiguration: {maxPods: 250}}}": 250} {
		r := render(t, merged(t, withJoin, values))
		var config kubeletconfig.KubeletConfiguration
		require.NoError(t, yaml.UnmarshalStrict([]byte(find(t, r, "ConfigMap", "tripod-join", &corev1.ConfigMap{}).Data["config.yaml"]), &config))
		assert.Equal(t, "kubelet.config.k8s.io/v1beta1, Kind=KubeletConfiguration", config.GroupVersionKind().String())
		assert.Equal(t, want, config.MaxPods)
	}
}
