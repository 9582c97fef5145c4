// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// withEndpoints are the values that the presets cluster and ha need.
const withEndpoints = "{join: {endpoint: '192.0.2.7:443'}, konnectivity: {endpoint: 'tunnel.example.com:8132'}}"

// presets returns what presets.json gives, by preset.
func presets(t *testing.T) map[string]map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(chart, "presets.json"))
	require.NoError(t, err)
	var all map[string]map[string]any
	require.NoError(t, yaml.UnmarshalStrict(data, &all))
	return all
}

// A value that only one preset gave would be missing with the others, and a value with a default of its own would never come from a preset.
func TestEachPresetGivesTheSameValues(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(data, &values))
	all := presets(t)
	require.ElementsMatch(t, []string{"api", "cluster", "ha"}, slices.Collect(maps.Keys(all)))
	given := map[string][]string{}
	for name, preset := range all {
		paths := given[name]
		delete(preset["controllerManager"].(map[string]any), "controllers") // its keys are names of controllers
		leaves("", preset, &paths)
		slices.Sort(paths)
		given[name] = paths
	}
	assert.Equal(t, given["api"], given["cluster"])
	assert.Equal(t, given["api"], given["ha"])
	for _, path := range given["api"] {
		value, _, err := unstructured.NestedFieldNoCopy(values, strings.Split(path, ".")...)
		require.NoError(t, err)
		assert.Contains(t, []any{nil, "preset"}, value, "the default of %s", path)
	}
}

// replicas returns the replicas of each Deployment and StatefulSet of a release.
func replicas(r release) map[string]int64 {
	found := map[string]int64{}
	for _, object := range r.objects {
		if kind := object.GetKind(); kind == "Deployment" || kind == "StatefulSet" {
			found[strings.TrimPrefix(object.GetName(), "tripod-")], _, _ = unstructured.NestedInt64(object.Object, "spec", "replicas")
		}
	}
	return found
}

func TestPresets(t *testing.T) {
	const all = "*,bootstrap-signer-controller,token-cleaner-controller"
	one := map[string]int64{"aggregator": 1, "core": 1, "extensions": 1, "etcd": 1}
	with := func(base map[string]int64, more map[string]int64) map[string]int64 {
		sum := maps.Clone(base)
		maps.Copy(sum, more)
		return sum
	}
	both := map[string]int64{"controller-manager": 2, "scheduler": 2}
	two := map[string]int64{"aggregator": 2, "core": 2, "extensions": 2, "etcd": 3, "controller-manager": 2, "scheduler": 2}
	none := "{join: {enabled: false}, controllerManager: {enabled: false}, scheduler: {enabled: false}, etcd: {snapshots: {enabled: false}}}"
	database := "search: {enabled: true, database: {secret: where}}"
	for name, test := range map[string]struct {
		preset, values string
		replicas       map[string]int64
		// controllers begin the list of controllers.
		controllers              string
		join, tunnels, snapshots bool
	}{
		"default":                           {"", "", with(one, map[string]int64{"controller-manager": 1}), "certificatesigningrequest-approving-controller,", false, false, false},
		"api":                               {"api", "", with(one, map[string]int64{"controller-manager": 1}), "certificatesigningrequest-approving-controller,", false, false, false},
		"cluster":                           {"cluster", withEndpoints, with(one, both), all, true, true, true},
		"ha":                                {"ha", withEndpoints, two, all, true, true, true},
		"api with all controllers":          {"api", "controllerManager: {enabled: true}", with(one, map[string]int64{"controller-manager": 2}), all, false, false, false},
		"api without controllers":           {"api", "controllerManager: {enabled: false}", one, "", false, false, false},
		"api with other controllers":        {"api", "controllerManager: {replicas: 3, controllers: [job-controller]}", with(one, map[string]int64{"controller-manager": 3}), "job-controller", false, false, false},
		"api with nodes":                    {"api", withJoin, with(one, map[string]int64{"controller-manager": 2}), all, true, false, false},
		"cluster with nothing of a cluster": {"cluster", none, one, "", false, false, false},
		"cluster without konnectivity":      {"cluster", "{join: {endpoint: '192.0.2.7:443'}, konnectivity: {enabled: false}}", with(one, both), all, true, false, true},
		"cluster with an etcd of others":    {"cluster", merged(t, "join: {enabled: false}", withExternal), with(map[string]int64{"aggregator": 1, "core": 1, "extensions": 1}, both), all, false, false, false},
		"cluster whose data has no volume":  {"cluster", "{join: {enabled: false}, etcd: {persistence: {enabled: false}}}", with(one, both), all, false, false, false},
		"ha with other replicas":            {"ha", merged(t, withEndpoints, "{core: {replicas: 5}, extensions: {replicas: 1}, etcd: {replicas: 1}, controllerManager: {replicas: 1}}"), with(two, map[string]int64{"core": 5, "extensions": 1, "etcd": 1, "controller-manager": 1}), all, true, true, true},
		"ha with partitions and search": {"ha", merged(t, withEndpoints, database, "extensions: {partitions: {shop: {groups: [shop.example.com]}, big: {groups: [big.example.com], replicas: 4}}}"),
			with(two, map[string]int64{"extensions-shop": 2, "extensions-big": 4, "search": 2, "search-sync": 2}), all, true, true, true},
		"ha with search for a try": {"ha", merged(t, withEndpoints, withSearch), with(two, map[string]int64{"search": 1}), all, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			preset := "{}"
			if test.preset != "" {
				preset = "preset: " + test.preset
			}
			r := render(t, merged(t, preset, test.values))
			checkAccepted(t, r)
			assert.Equal(t, test.replicas, replicas(r))
			assert.Equal(t, test.join, strings.Contains(r.text, "\n            - prepare\n"), "nodes join")
			assert.Equal(t, test.tunnels, strings.Contains(r.text, "command: [/proxy-server]"), "konnectivity")
			assert.Equal(t, test.snapshots, strings.Contains(r.text, "- --directory=/snapshots"), "snapshots")
			if test.controllers == "" {
				return
			}
			args := find(t, r, "Deployment", "tripod-controller-manager", &appsv1.Deployment{}).Spec.Template.Spec.Containers[0].Args
			i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--controllers="+test.controllers) })
			assert.GreaterOrEqual(t, i, 0, "%v", args)
			// A kube-controller-manager of the user, with all controllers, must not wait for one that has only some.
			assert.Equal(t, test.controllers != all, slices.Contains(args, "--leader-elect-resource-namespace=kube-public"))
		})
	}
}

func TestAPresetThatContradictsOtherValuesIsRefused(t *testing.T) {
	for values, want := range map[string]string{
		"{preset: cluster, join: {endpoint: 'a:443'}, konnectivity: {enabled: false}}": "preset cluster needs advertise.address",
		"{preset: cluster, join: {coreDNS: {imageRepository: 'https://a'}}}":           "at '/join/coreDNS/imageRepository'",
		"preset: large": "at '/preset': value must be one of 'api', 'cluster', 'ha'",
		"join: {enabled: true, endpoint: 'a:443'}":                            "join.enabled needs the controllers of nodes, which preset api does not run",
		"{preset: api, konnectivity: {enabled: true}}":                        "konnectivity.enabled needs join.enabled",
		"{preset: api, join: {coreDNS: {enabled: true}}}":                     "join.coreDNS.enabled is for nodes that join, and preset api has none",
		"{preset: api, join: {kubeProxy: {enabled: true}}}":                   "join.kubeProxy.enabled is for nodes that join, and preset api has none",
		"join: {podNetwork: 'a: b'}":                                          "join.podNetwork is for nodes that join, and preset api has none",
		"join: {enabled: false, coreDNS: {enabled: true}}":                    "join.coreDNS.enabled is for nodes that join, and join.enabled is false",
		"{preset: cluster, join: {enabled: false, coreDNS: {enabled: true}}}": "join.coreDNS.enabled is for nodes that join, and join.enabled is false",
		"{preset: ha, join: {enabled: false, podNetwork: 'a: b'}}":            "join.podNetwork is for nodes that join, and join.enabled is false",
		"preset: cluster":                                                             "preset cluster needs join.endpoint",
		"{preset: ha, join: {endpoint: 'a:443'}}":                                     "preset ha needs konnectivity.endpoint",
		"{preset: cluster, join: {endpoint: 'https://a'}}":                            "at '/join/endpoint'",
		"{preset: ha, etcd: {replicas: 2}}":                                           "at '/etcd/replicas'",
		"{preset: ha, core: {replicas: many}}":                                        "at '/core/replicas'",
		"{preset: cluster, controllerManager: {controllers: []}}":                     "at '/controllerManager/controllers'",
		"services: {wardle: {image: {repository: a}, replicas: preset}}":              "at '/services/wardle/replicas'",
		"{preset: ha, join: {enabled: false}, etcd: {persistence: {enabled: false}}}": "need etcd.persistence.enabled",
		"{preset: cluster, join: {endpoint: '192.0.2.7:443'}, konnectivity: {enabled: false}, authentication: {bootstrapTokens: false}}": "join.enabled needs authentication.bootstrapTokens",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			_, err := helmTemplate(t, values)
			require.ErrorContains(t, err, want)
		})
	}
}

// Most storage classes bind a claim when the first pod uses it, and helm waits for claims.
func TestAPodUsesTheClaimOfSnapshotsAtOnce(t *testing.T) {
	for values, want := range map[string]bool{
		withSnapshots: true, "{}": false, merged(t, withSnapshots, "etcd: {snapshots: {volume: {emptyDir: {}}}}"): false,
	} {
		r := render(t, values)
		checkAccepted(t, r)
		uses := slices.ContainsFunc(r.pods(t), func(p pod) bool {
			return strings.HasPrefix(p.owner, "Job ") && slices.ContainsFunc(p.spec.Volumes, func(v corev1.Volume) bool {
				return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "tripod-etcd-snapshots"
			})
		})
		assert.Equal(t, want, uses, values)
	}
}

// Pods on nodes find the API where nodes find it: they do not reach the addresses of pods of the cluster that Tripod runs in.
func TestAPresetKnowsWhereClientsOfTheServiceFindTheAPI(t *testing.T) {
	const atNodes = "service: {type: NodePort, nodePort: 30443}"
	const tunnels = "konnectivity: {endpoint: 'a:1'}"
	for name, test := range map[string]struct{ values, address, port string }{
		"api":                            {"{}", "$(POD_IP)", "6443"},
		"api at a node port":             {atNodes, "$(POD_IP)", "6443"},
		"nodes without a preset":         {merged(t, withJoin, atNodes), "$(POD_IP)", "6443"},
		"a cluster without nodes":        {merged(t, "{preset: cluster, join: {enabled: false}}", atNodes), "$(POD_IP)", "6443"},
		"a node port":                    {merged(t, "preset: cluster", withEndpoints, atNodes), "$(HOST_IP)", "30443"},
		"a load balancer":                {merged(t, "preset: ha", "join: {endpoint: '192.0.2.9:8443'}", tunnels), "192.0.2.9", "8443"},
		"a load balancer with IPv6":      {merged(t, "preset: ha", "join: {endpoint: '[2001:db8::7]:443'}", tunnels), "2001:db8::7", "443"},
		"a load balancer that is a name": {merged(t, "preset: ha", "{join: {endpoint: 'a:443'}, advertise: {address: 192.0.2.9, port: 443}}", tunnels), "192.0.2.9", "443"},
		"values that win":                {merged(t, "preset: cluster", withEndpoints, atNodes, "advertise: {address: podIP, port: 7443}"), "$(POD_IP)", "7443"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := render(t, test.values)
			checkAccepted(t, r)
			assert.Contains(t, r.text, "- --advertise-address="+test.address+"\n")
			assert.Contains(t, r.text, "- --advertise-port="+test.port+"\n")
		})
	}
}

func TestAgentsReachServersAtTheHostOfNodesIfTheServiceHasANodePort(t *testing.T) {
	const atNodes = "{preset: cluster, service: {type: NodePort, nodePort: 30443}, join: {endpoint: '192.0.2.7:30443'}, konnectivity: {service: {nodePort: 30132}}}"
	for values, want := range map[string]string{
		"{}":                                     "--proxy-server-host=192.0.2.7\n                - --proxy-server-port=30132\n",
		"konnectivity: {endpoint: 'other:8132'}": "--proxy-server-host=other\n                - --proxy-server-port=8132\n",
	} {
		assert.Contains(t, render(t, merged(t, atNodes, values)).text, want)
	}
}

func TestTheJobOfNodesInstallsWhatKubeadmDoes(t *testing.T) {
	args := func(values ...string) (args []string, applied []string) {
		r := render(t, merged(t, append([]string{withEndpoints}, values...)...))
		checkAccepted(t, r)
		for _, p := range r.pods(t) {
			for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
				if slices.Contains(c.Args, "prepare") {
					args = c.Args
				}
				if slices.Contains(c.Args, "--force-conflicts") {
					applied = append(applied, c.Name)
				}
			}
		}
		return args, applied
	}
	flags, applied := args("preset: cluster")
	assert.Subset(t, flags, []string{"--coredns", "--kube-proxy", "--kube-proxy-config=/etc/tripod/kubelet/kube-proxy.yaml"})
	assert.Equal(t, []string{"konnectivity"}, applied)
	flags, applied = args("{preset: ha, join: {coreDNS: {enabled: false}, kubeProxy: {enabled: false}, podNetwork: 'a: b'}, konnectivity: {enabled: false}}")
	assert.NotContains(t, strings.Join(flags, " "), "coredns")
	assert.NotContains(t, strings.Join(flags, " "), "kube-proxy")
	assert.Equal(t, []string{"network"}, applied)
	flags, applied = args(withJoin)
	assert.NotContains(t, strings.Join(flags, " "), "kube-proxy", "what join.enabled meant before there were presets")
	assert.Empty(t, applied)
}
