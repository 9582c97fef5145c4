// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	aggregatoroptions "github.com/tripod-k8s/tripod/services/aggregator/options"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// withPartitions has a partition with a pattern, and one with a name.
const withPartitions = "extensions: {partitions: {shop: {groups: [shop.example.com]}, big: {groups: ['*.example.org', example.org]}}}"

func podOf(t *testing.T, r release, component string) corev1.PodSpec {
	t.Helper()
	return find(t, r, "Deployment", "tripod-"+component, &appsv1.Deployment{}).Spec.Template.Spec
}

// given returns the values of a flag that a component has.
func given(t *testing.T, r release, component, flag string) []string {
	t.Helper()
	var values []string
	for _, arg := range podOf(t, r, component).Containers[0].Args {
		if value, ok := strings.CutPrefix(arg, "--"+flag+"="); ok {
			values = append(values, value)
		}
	}
	return values
}

func TestAPartitionHasTheObjectsOfExtensions(t *testing.T) {
	r := render(t, merged(t, withPartitions, "extensions: {autoscaling: {enabled: true}}", withMonitors))
	kinds := func(name string) map[string]int {
		found := map[string]int{}
		for _, object := range r.objects {
			if object.GetName() == "tripod-"+name {
				found[object.GetKind()]++
			}
		}
		return found
	}
	require.Len(t, kinds("extensions"), 7)
	for _, name := range []string{"extensions-shop", "extensions-big"} {
		assert.Equal(t, kinds("extensions"), kinds(name), name)
		assert.Contains(t, r.text, "- secret: tripod-"+name+"\n        authority: tripod-service-ca\n")
		assert.Contains(t, r.text, "commonName: system:tripod:"+name+"\n        dnsNames:\n        - "+name+".tripod-system.svc\n")
		assert.Contains(t, r.text, "commonName: tripod-"+name+"\n", "the user of etcd")
	}
	checkAccepted(t, r)
}

func TestAPartitionIsADeploymentAsExtensionsIs(t *testing.T) {
	r := render(t, merged(t, withPartitions, `
extensions:
  extraArgs: [--max-requests-inflight=800]
  resources: {limits: {memory: 3Gi}}
  partitions: {shop: {replicas: 2, resources: {limits: {memory: 1Gi}}}}`))
	shop, extensions := podOf(t, r, "extensions-shop"), podOf(t, r, "extensions")
	own, container := shop.Containers[0], extensions.Containers[0]
	assert.Equal(t, append(slices.Clone(container.Args), "--partition=shop"), append(slices.DeleteFunc(slices.Clone(own.Args), func(arg string) bool {
		return arg == "--partition=shop"
	}), "--partition=shop"), "it has the flags of extensions, and its name")
	assert.Equal(t, container.Image, own.Image)
	assert.Equal(t, container.Resources.Requests, own.Resources.Requests, "values that are not given are those of extensions")
	assert.Equal(t, "1Gi", own.Resources.Limits.Memory().String())
	assert.Equal(t, "3Gi", podOf(t, r, "extensions-big").Containers[0].Resources.Limits.Memory().String())
	assert.EqualValues(t, 2, *find(t, r, "Deployment", "tripod-extensions-shop", &appsv1.Deployment{}).Spec.Replicas)
	for _, probe := range []func(corev1.Container) *corev1.Probe{
		func(c corev1.Container) *corev1.Probe { return c.StartupProbe },
		func(c corev1.Container) *corev1.Probe { return c.ReadinessProbe },
		func(c corev1.Container) *corev1.Probe { return c.LivenessProbe },
	} {
		assert.Equal(t, probe(container), probe(own))
	}
	assert.Equal(t, extensions.SecurityContext, shop.SecurityContext)
	assert.Equal(t, extensions.TerminationGracePeriodSeconds, shop.TerminationGracePeriodSeconds)
}

// TestAllServicesHaveTheSamePartitions has the services read their flags.
func TestAllServicesHaveTheSamePartitions(t *testing.T) {
	r := render(t, withPartitions)
	want := partitions.Table{"shop": {"shop.example.com"}, "big": {"*.example.org", "example.org"}}
	for component, name := range map[string][]string{"extensions": nil, "extensions-shop": {"shop"}, "extensions-big": {"big"}} {
		table, err := partitions.Parse(given(t, r, component, "partition-groups"))
		require.NoError(t, err, component)
		assert.Equal(t, want, table, component)
		assert.Equal(t, name, given(t, r, component, "partition"), component)
	}
	var backends aggregatoroptions.BackendLists
	fs := pflag.NewFlagSet("aggregator", pflag.ContinueOnError)
	fs.ParseErrorsAllowlist.UnknownFlags = true
	backends.AddFlags(fs)
	require.NoError(t, fs.Parse(podOf(t, r, "aggregator").Containers[0].Args))
	assert.Equal(t, []string{"extensions-big=dns:///tripod-extensions-big.control.svc:6443", "extensions-shop=dns:///tripod-extensions-shop.control.svc:6443"},
		backends.Additional.Servers)
	assert.Equal(t, []string{"extensions-big=dns:///tripod-extensions-big.control.svc:6444", "extensions-shop=dns:///tripod-extensions-shop.control.svc:6444"},
		backends.Additional.GRPC)
	assert.Equal(t, []string{"extensions-big=*.example.org,example.org", "extensions-shop=shop.example.com"}, backends.Additional.Groups)
	assert.Empty(t, given(t, r, "core", "partition-groups"))
}

func TestEveryValueOfAPartitionDoesSomething(t *testing.T) {
	const path, base = "extensions.partitions.shop", "extensions: {partitions: {shop: {groups: [shop.example.com]}}}"
	all := map[string][]change{}
	for _, c := range append(slices.Clone(serviceChanges), change{path: "groups", value: "[other.example.com]", want: "- --backend-groups=extensions-shop=other.example.com", alone: true}) {
		c.want = strings.ReplaceAll(c.want, "SERVICE", "extensions-shop")
		if value, ok := strings.CutPrefix(c.with, "SERVICE: "); ok {
			c.with = nested(path, value)
		}
		name := "with " + c.with
		if c.alone {
			name = c.path
		}
		all[name] = append(all[name], c)
	}
	for name, batch := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents := []string{base, batch[0].with}
			without := render(t, merged(t, documents...))
			for _, c := range batch {
				documents = append(documents, nested(path+"."+c.path, c.value))
			}
			with := render(t, merged(t, documents...))
			checkAccepted(t, with)
			for _, c := range batch {
				assert.Contains(t, with.text, c.want, "with %s=%s", c.path, c.value)
				assert.NotContains(t, without.text, c.want, "without %s", c.path)
			}
		})
	}
}

// TestWrongPartitionsAreRefused tries values that the services would refuse when they start.
func TestWrongPartitionsAreRefused(t *testing.T) {
	const ofWardle = "{wardle: {image: {repository: b}, groups: [wardle.a.com]}}"
	for _, test := range []struct{ partitions, others, want string }{
		{"{a: {}}", "", "at '/extensions/partitions/a': missing property 'groups'"},
		{"{a: {groups: []}}", "", "at '/extensions/partitions/a/groups': minItems: got 0, want 1"},
		{"{a: {groups: ['*']}}", "", `extensions.partitions.a: "*" matches every API group: give groups, or *.SUFFIX`},
		{"{a: {groups: ['*.']}}", "", `extensions.partitions.a: "*." matches every API group: give groups, or *.SUFFIX`},
		{"{a: {groups: [apps]}}", "", "extensions.partitions.a: apps has the group apps, which is built in"},
		{"{a: {groups: [apiextensions.k8s.io]}}", "", "has the group apiextensions.k8s.io, which is built in"},
		{"{a: {groups: ['*.k8s.io']}}", "", "which is built in"},
		{"{a: {groups: [a.com]}, b: {groups: [a.com]}}", "", "extensions.partitions.b: a.com and a.com of partition a have groups in common"},
		{"{a: {groups: ['*.a.com']}, b: {groups: [x.a.com]}}", "", "extensions.partitions.b: x.a.com and *.a.com of partition a have groups in common"},
		{"{a: {groups: [x.a.com]}, b: {groups: ['*.a.com']}}", "", "extensions.partitions.b: *.a.com and x.a.com of partition a have groups in common"},
		{"{a: {groups: ['*.a.com']}, b: {groups: ['*.x.a.com']}}", "", "extensions.partitions.b: *.x.a.com and *.a.com of partition a have groups in common"},
		{"{a: {groups: [a.com, a.com]}}", "", "at '/extensions/partitions/a/groups': items at 0 and 1 are equal"},
		{"{a: {groups: ['a.*']}}", "", "at '/extensions/partitions/a/groups/0'"},
		{"{a: {groups: [a_b.com]}}", "", "at '/extensions/partitions/a/groups/0'"},
		{"{A: {groups: [a.com]}}", "", "invalid propertyName 'A'"},
		{"{a: {groups: [a.com], replica: 2}}", "", "additional properties 'replica' not allowed"},
		{"{a: {groups: [a.com], partitions: {}}}", "", "additional properties 'partitions' not allowed"},
		{"{" + strings.Repeat("a", 46) + ": {groups: [a.com]}}", "", "the name is too long"},
		{"{a: {groups: [wardle.a.com]}}", "services: " + ofWardle, "wardle.a.com has the group wardle.a.com, which the service wardle has"},
		{"{a: {groups: ['*.a.com']}}", "services: " + ofWardle, "*.a.com has the group wardle.a.com, which the service wardle has"},
		{"{a: {groups: [clusterpedia.io]}}", "search: {enabled: true}", "clusterpedia.io has the group clusterpedia.io, which the service search has"},
		{"{a: {groups: [a.com], etcd: {secret: mine}}}", "", "extensions.partitions.a.etcd: servers is missing: secret is for these"},
		{"{a: {groups: [a.com], etcd: {enabled: true, servers: ['https://b:1']}}}", "", "a.etcd: give enabled for an etcd of the release, or servers and secret for one of yours"},
		{"{a: {groups: [a.com], etcd: {servers: ['https://b:1'], resources: {}}}}", "", "extensions.partitions.a.etcd.resources is for an etcd of the release: set enabled"},
		{"{a: {groups: [a.com], etcd: {servers: [b]}}}", "", "at '/extensions/partitions/a/etcd/servers/0': 'b' does not match pattern"},
		{"{a: {groups: [a.com], etcd: {enabled: true, replicas: 3}}}", "", "at '/extensions/partitions/a/etcd': additional properties 'replicas' not allowed"},
		{"{" + strings.Repeat("a", 30) + ": {groups: [a.com], etcd: {enabled: true}}}", "", "the name is too long for an etcd of its own"},
		{"{}", "services: {extensions-a: {image: {repository: b}}}", "invalid propertyName 'extensions-a'"},
		{"{}", "etcd: {external: {serviceSecrets: {partition-a: b}}}", "additional properties 'partition-a' not allowed"},
	} {
		t.Run(test.partitions+test.others, func(t *testing.T) {
			t.Parallel()
			_, err := helmTemplate(t, "extensions: {partitions: "+test.partitions+"}\n"+test.others)
			assert.ErrorContains(t, err, test.want)
		})
	}
}

// TestTheChartAcceptsTheListsThatServicesAccept tries lists that are close to wrong ones.
func TestTheChartAcceptsTheListsThatServicesAccept(t *testing.T) {
	for _, table := range []partitions.Table{
		{"a": {"*.a.com"}, "b": {"a.com"}},
		{"a": {"*.a.com", "a.com", "x.a.com"}},
		{"a": {"*.a.com"}, "b": {"*.b.com", "xa.com"}},
		{"a": {"gateway.networking.x-k8s.io", "snapshot.storage.k8s.io"}},
		{"1": {"one"}},
	} {
		require.NoError(t, table.Validate(), table)
		given := map[string]any{}
		for name, groups := range table {
			given[name] = map[string]any{"groups": groups}
		}
		values, err := json.Marshal(map[string]any{"extensions": map[string]any{"partitions": given}})
		require.NoError(t, err)
		_, err = helmTemplate(t, string(values))
		assert.NoError(t, err, table)
	}
}

// TestTheChartKnowsTheBuiltInGroups allows more groups: an older version of Kubernetes has fewer.
func TestTheChartKnowsTheBuiltInGroups(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(chart, "groups.json"))
	require.NoError(t, err)
	var known []string
	require.NoError(t, json.Unmarshal(data, &known))
	assert.Subset(t, known, partitions.BuiltIn())
}

// TestAPartitionUsesTheEtcdOfExtensions also looks at who sets the rights there.
func TestAPartitionUsesTheEtcdOfExtensions(t *testing.T) {
	for values, want := range map[string]string{
		"{}":                       "https://tripod-etcd-0.tripod-etcd.control.svc:2379",
		"etcd: {mode: perService}": "https://tripod-etcd-extensions-0.tripod-etcd-extensions.control.svc:2379",
		"etcd: {enabled: false, mode: perService, external: {servers: ['https://one'], extensionsServers: ['https://two'], serviceSecrets: {extensions-shop: mine}}}": "https://two",
	} {
		r := render(t, merged(t, withPartitions, values))
		checkAccepted(t, r)
		for _, component := range []string{"extensions", "extensions-shop", "extensions-big"} {
			assert.Equal(t, []string{want}, given(t, r, component, "etcd-servers"), component)
		}
		jobs := 0
		for _, p := range r.pods(t) {
			args := p.spec.Containers[0].Args
			if !slices.Contains(args, "access") {
				continue
			}
			ofExtensions := slices.ContainsFunc(args, func(arg string) bool { return arg == "--endpoints="+want })
			assert.Equal(t, ofExtensions, slices.Contains(args, "--extensions-partition=shop=shop.example.com"), name(p))
			if ofExtensions {
				jobs++
			}
		}
		if !strings.Contains(values, "external") {
			assert.Equal(t, 1, jobs)
			continue
		}
		assert.Contains(t, r.text, "name: mine\n", "its certificate for etcd")
	}
}

func TestAPartitionMayHaveAnEtcdOfItsOwn(t *testing.T) {
	const own = "extensions: {partitions: {big: {etcd: {servers: ['https://one:3379', 'https://two:3379']}}}}"
	for values, file := range map[string]string{"{}": "", "extensions: {partitions: {big: {etcd: {secret: mine}}}}": "/etc/tripod/pki/group-etcd-"} {
		r := render(t, merged(t, withPartitions, own, values, "networkPolicy: {outside: [{ipBlock: {cidr: 192.0.2.0/24}}]}"))
		checkAccepted(t, r)
		assert.Equal(t, []string{"*.example.org=https://one:3379,https://two:3379", "example.org=https://one:3379,https://two:3379"},
			given(t, r, "extensions-big", "group-etcd-servers"))
		assert.Equal(t, []string{"https://tripod-etcd-0.tripod-etcd.control.svc:2379"}, given(t, r, "extensions-big", "etcd-servers"), "definitions")
		for flag, name := range map[string]string{"cafile": "ca.crt", "certfile": "client/tls.crt", "keyfile": "client/tls.key"} {
			want := file
			if file != "" {
				want += name
			}
			assert.Equal(t, []string{want}, given(t, r, "extensions-big", "group-etcd-"+flag), "and not those of the other etcd")
		}
		pod := podOf(t, r, "extensions-big")
		require.NoError(t, flagsOf("extensions-big").Parse(pod.Containers[0].Args))
		mounted := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.Secret.Name == "mine" })
		})
		assert.Equal(t, file != "", mounted)
		reached := false
		for _, rule := range find(t, r, "NetworkPolicy", "tripod-extensions-big", &networkingv1.NetworkPolicy{}).Spec.Egress {
			reached = reached || len(rule.To) == 0 && len(rule.Ports) == 1 && rule.Ports[0].Port.IntValue() == 3379
		}
		assert.True(t, reached, "the policy allows its port")
		for _, other := range []string{"extensions", "extensions-shop"} {
			assert.Empty(t, given(t, r, other, "group-etcd-servers"), other)
			for _, volume := range podOf(t, r, other).Volumes {
				assert.NotContains(t, volume.String(), "mine", other)
			}
		}
	}
}

// TestTheReleaseRunsTheEtcdOfAPartition also compares it with the etcd of extensions, which is made in the same way.
func TestTheReleaseRunsTheEtcdOfAPartition(t *testing.T) {
	const own, name = "extensions: {partitions: {big: {etcd: {enabled: true}}}}", "tripod-etcd-extensions-big"
	const values = "networkPolicy: {outside: [{ipBlock: {cidr: 192.0.2.0/24}}]}\netcd: {snapshots: {enabled: true}}"
	without := render(t, merged(t, withPartitions, withMonitors, "etcd: {mode: perService}", values))
	r := render(t, merged(t, withPartitions, withMonitors, own, values))
	checkAccepted(t, r)
	kinds := func(r release, name string) map[string]int {
		found := map[string]int{}
		for _, object := range r.objects {
			if object.GetName() == name || object.GetName() == name+"-snapshot" || strings.HasPrefix(object.GetName(), name+"-access-") {
				found[object.GetKind()]++
			}
		}
		return found
	}
	require.Len(t, kinds(without, "tripod-etcd-extensions"), 7)
	assert.Equal(t, kinds(without, "tripod-etcd-extensions"), kinds(r, name))

	const url = "https://tripod-etcd-extensions-big-0.tripod-etcd-extensions-big.control.svc:2379"
	assert.Equal(t, []string{"*.example.org=" + url, "example.org=" + url}, given(t, r, "extensions-big", "group-etcd-servers"))
	assert.Equal(t, []string{"https://tripod-etcd-0.tripod-etcd.control.svc:2379"}, given(t, r, "extensions-big", "etcd-servers"), "definitions")
	assert.Equal(t, []string{"0"}, given(t, r, "extensions-big", "group-etcd-compaction-interval"), "its user may not compact")
	pod := podOf(t, r, "extensions-big")
	require.NoError(t, flagsOf("extensions-big").Parse(pod.Containers[0].Args))
	var secrets []string
	for _, volume := range pod.Volumes {
		if volume.Projected != nil {
			for _, source := range volume.Projected.Sources {
				secrets = append(secrets, source.Secret.Name)
			}
		}
	}
	assert.Contains(t, secrets, name+"-client-extensions-big")
	for _, other := range []string{"extensions", "extensions-shop", "core", "aggregator"} {
		assert.Empty(t, given(t, r, other, "group-etcd-servers"), other)
		for _, volume := range podOf(t, r, other).Volumes {
			assert.NotContains(t, volume.String(), name, other)
		}
	}
	reaches := func(policy string) (etcds []string) {
		for _, rule := range find(t, r, "NetworkPolicy", policy, &networkingv1.NetworkPolicy{}).Spec.Egress {
			for _, peer := range rule.To {
				if peer.PodSelector != nil && peer.PodSelector.MatchLabels["tripod-k8s.io/etcd"] != "" {
					etcds = append(etcds, peer.PodSelector.MatchLabels["tripod-k8s.io/etcd"])
				}
			}
		}
		return etcds
	}
	for _, policy := range []string{"tripod-extensions-big", "tripod-etcd-access", "tripod-etcd-snapshots", "tripod-etcd-defrag"} {
		assert.Equal(t, []string{"etcd", "etcd-extensions-big"}, reaches(policy), policy)
	}
	assert.Equal(t, []string{"etcd"}, reaches("tripod-extensions"))

	// Without an etcd of its own for everything else, the release runs this one nevertheless.
	external := render(t, merged(t, withPartitions, own, values, "etcd: {enabled: false, external: {servers: ['https://one:2379']}}"))
	checkAccepted(t, external)
	assert.Equal(t, kinds(without, "tripod-etcd-extensions")["StatefulSet"], kinds(external, name)["StatefulSet"])
	assert.Equal(t, []string{"0"}, given(t, external, "extensions-big", "etcd-db-metric-poll-interval"), "its user may not know the size")
}

func TestEveryValueOfTheEtcdOfAPartitionDoesSomething(t *testing.T) {
	const base = "etcd: {quotaBackendBytes: 4294967296, snapshots: {enabled: true}}\nextensions: {partitions: {shop: {groups: [shop.example.com], etcd: {enabled: true}}}}"
	set := func(values string) *appsv1.StatefulSet {
		r := render(t, merged(t, base, "extensions: {partitions: {shop: {etcd: "+values+"}}}"))
		checkAccepted(t, r)
		before, after := render(t, base), &appsv1.StatefulSet{}
		find(t, r, "StatefulSet", "tripod-etcd", after)
		assert.Equal(t, find(t, before, "StatefulSet", "tripod-etcd", &appsv1.StatefulSet{}), after, "the other etcd stays as it is")
		return find(t, r, "StatefulSet", "tripod-etcd-extensions-shop", &appsv1.StatefulSet{})
	}
	plain := set("{}")
	assert.Contains(t, plain.Spec.Template.Spec.Containers[0].Args, "--quota-backend-bytes=4294967296", "values that are not given are those of etcd")
	for values, want := range map[string]string{
		"{quotaBackendBytes: 2147483648}":              "--quota-backend-bytes=2147483648",
		"{resources: {limits: {memory: 5Gi}}}":         "5Gi",
		"{persistence: {size: 3Gi}}":                   "3Gi",
		"{persistence: {enabled: false}}":              "emptyDir",
		"{extraArgs: [--snapshot-count=7]}":            "--snapshot-count=7",
		"{nodeSelector: {disk: fast}}":                 "fast",
		"{tolerations: [{operator: Exists}]}":          "tolerations",
		"{affinity: {nodeAffinity: {}}}":               "affinity",
		"{topologySpreadConstraints: []}":              "",
		"{priorityClassName: high}":                    "high",
		"{restoreSnapshot: etcd-extensions-shop-1.db}": "/snapshots/etcd-extensions-shop-1.db",
	} {
		object := set(values)
		text, err := json.Marshal(object)
		require.NoError(t, err)
		before, err := json.Marshal(plain)
		require.NoError(t, err)
		assert.NotEqual(t, string(before), string(text), values)
		if want != "" {
			assert.Contains(t, string(text), want, values)
			assert.NotContains(t, string(before), want, values)
		}
	}
}

// TestCustomResourcesAreCopiedOnceAllPartitionsAreStopped renders the Job that copies them to an etcd of their own.
func TestCustomResourcesAreCopiedOnceAllPartitionsAreStopped(t *testing.T) {
	for values, want := range map[string]bool{
		"extensions: {replicas: 0}":                                                        true,
		"extensions: {replicas: 0, partitions: {shop: {replicas: 1}}}":                     false,
		"extensions: {replicas: 0, partitions: {shop: {autoscaling: {enabled: true}}}}":    false,
		"extensions: {replicas: 1, partitions: {shop: {replicas: 0}, big: {replicas: 0}}}": false,
	} {
		r := render(t, merged(t, withPartitions, "etcd: {mode: perService}", values))
		assert.Equal(t, want, strings.Contains(r.text, "name: tripod-split-etcd"), values)
	}
}
