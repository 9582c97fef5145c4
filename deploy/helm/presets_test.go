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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// withEndpoints are the values that the presets cluster and ha need.
const withEndpoints = "{join: {endpoint: 'api.example.com:443'}, konnectivity: {endpoint: 'tunnel.example.com:8132'}}"

// presets returns what presets.yaml gives, by preset.
func presets(t *testing.T) map[string]map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(chart, "presets.yaml"))
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
		"default":                           {"", "", with(one, map[string]int64{"controller-manager": 1}), "namespace-controller,", false, false, false},
		"api":                               {"api", "", with(one, map[string]int64{"controller-manager": 1}), "namespace-controller,", false, false, false},
		"cluster":                           {"cluster", withEndpoints, with(one, both), all, true, true, true},
		"ha":                                {"ha", withEndpoints, two, all, true, true, true},
		"api with all controllers":          {"api", "controllerManager: {enabled: true}", with(one, map[string]int64{"controller-manager": 2}), all, false, false, false},
		"api without controllers":           {"api", "controllerManager: {enabled: false}", one, "", false, false, false},
		"api with other controllers":        {"api", "controllerManager: {replicas: 3, controllers: [job-controller]}", with(one, map[string]int64{"controller-manager": 3}), "job-controller", false, false, false},
		"api with nodes":                    {"api", withJoin, with(one, map[string]int64{"controller-manager": 2}), all, true, false, false},
		"cluster with nothing of a cluster": {"cluster", none, one, "", false, false, false},
		"cluster without konnectivity":      {"cluster", "{join: {endpoint: 'a:443'}, konnectivity: {enabled: false}}", with(one, both), all, true, false, true},
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
		"preset: large": "at '/preset': value must be one of 'api', 'cluster', 'ha'",
		"join: {enabled: true, endpoint: 'a:443'}":     "join.enabled needs the controllers of nodes, which preset api does not run",
		"{preset: api, konnectivity: {enabled: true}}": "konnectivity.enabled needs join.enabled",
		"preset: cluster":                                                             "preset cluster needs join.endpoint",
		"{preset: ha, join: {endpoint: 'a:443'}}":                                     "preset ha needs konnectivity.endpoint",
		"{preset: cluster, join: {endpoint: 'https://a'}}":                            "at '/join/endpoint'",
		"{preset: ha, etcd: {replicas: 2}}":                                           "at '/etcd/replicas'",
		"{preset: ha, core: {replicas: many}}":                                        "at '/core/replicas'",
		"{preset: cluster, controllerManager: {controllers: []}}":                     "at '/controllerManager/controllers'",
		"services: {wardle: {image: {repository: a}, replicas: preset}}":              "at '/services/wardle/replicas'",
		"{preset: ha, join: {enabled: false}, etcd: {persistence: {enabled: false}}}": "need etcd.persistence.enabled",
		"{preset: cluster, join: {endpoint: 'a:443'}, konnectivity: {enabled: false}, authentication: {bootstrapTokens: false}}": "join.enabled needs authentication.bootstrapTokens",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			_, err := helmTemplate(t, values)
			require.ErrorContains(t, err, want)
		})
	}
}
