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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/admin/etcd/groupcheck"
)

const (
	ownEtcd    = "extensions: {partitions: {big: {etcd: {enabled: true}}}}"
	divided    = "{etcd: {mode: perService}, extensions: {replicas: 0}}"
	theirsEtcd = "extensions: {partitions: {big: {etcd: {servers: ['https://one:3379'], secret: mine}}}}"
)

// upgraded renders the upgrade of a release, which runs, to other values. change changes what runs.
func upgraded(t *testing.T, before, after string, change func(*appsv1.StatefulSet)) release {
	t.Helper()
	running := render(t, before)
	var objects []metav1.Object
	for _, name := range []string{"core", "extensions", "extensions-big"} {
		if strings.Contains(running.text, "name: tripod-"+name+"\n") {
			d := find(t, running, "Deployment", "tripod-"+name, &appsv1.Deployment{})
			d.Namespace = namespace
			objects = append(objects, d)
		}
	}
	if strings.Contains(running.text, "kind: StatefulSet") {
		set := find(t, running, "StatefulSet", "tripod-etcd", &appsv1.StatefulSet{})
		set.Namespace, set.Status.ReadyReplicas = namespace, 1
		if change != nil {
			change(set)
		}
		objects = append(objects, set)
	}
	text, err := helmTemplate(t, after, "--is-upgrade", "--dry-run=server", "--kube-apiserver="+clusterWith(t, objects...))
	require.NoError(t, err)
	return parse(t, text)
}

// TestAnUpgradeThatWouldOrphanDataIsRefused looks for the Job that refuses it.
func TestAnUpgradeThatWouldOrphanDataIsRefused(t *testing.T) {
	const external = "etcd: {enabled: false, external: {servers: ['https://two:2379'], secret: two}}"
	const ofExtraArgs = "extensions: {extraArgs: ['--group-etcd-servers=a.com=https://one:1']}"
	for _, test := range []struct {
		name, before, after string
		change              func(*appsv1.StatefulSet)
		want                bool
	}{
		{name: "no partition has an etcd", before: withPartitions, after: withPartitions},
		{name: "one gets an etcd", before: withPartitions, after: merged(t, withPartitions, ownEtcd)},
		{name: "one has an etcd", before: merged(t, withPartitions, ownEtcd), after: merged(t, withPartitions, ownEtcd), want: true},
		{name: "one loses it", before: merged(t, withPartitions, ownEtcd), after: withPartitions, want: true},
		{name: "all partitions go", before: merged(t, withPartitions, theirsEtcd), after: "{}", want: true},
		{name: "etcds of the user", before: merged(t, withPartitions, theirsEtcd, external), after: merged(t, withPartitions, theirsEtcd, external), want: true},
		{name: "flags of the user", before: ofExtraArgs, after: ofExtraArgs, want: true},
		{name: "flags of the user beside a partition", before: merged(t, withPartitions, ownEtcd, ofExtraArgs), after: withPartitions, want: true},
		{name: "the etcd of extensions is to be divided", before: merged(t, withPartitions, ownEtcd), after: merged(t, withPartitions, ownEtcd, divided), want: true},
		{name: "the etcd of extensions is to be divided, and all partitions go", before: merged(t, withPartitions, ownEtcd), after: divided, want: true},
		{name: "etcd does not run", before: merged(t, withPartitions, ownEtcd), after: "{}", change: func(set *appsv1.StatefulSet) { set.Status.ReadyReplicas = 0 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := upgraded(t, test.before, test.after, test.change)
			assert.Equal(t, test.want, strings.Contains(r.text, "- check-groups\n"))
			checkAccepted(t, r)
		})
	}
}

func TestTheCheckOfAnUpgradeAsksThePlannedEtcds(t *testing.T) {
	for values, want := range map[string]groupcheck.Etcd{
		ownEtcd:    {Servers: []string{"https://tripod-etcd-extensions-big-0.tripod-etcd-extensions-big.control.svc:2379"}, CAFile: "tripod-etcd-extensions-big-client"},
		theirsEtcd: {Servers: []string{"https://one:3379"}, CAFile: "mine"},
	} {
		r := upgraded(t, merged(t, withPartitions, ownEtcd), merged(t, withPartitions, values), nil)
		job := find(t, r, "Job", "tripod-check-groups", &batchv1.Job{})
		assert.Equal(t, "pre-upgrade", job.Annotations["helm.sh/hook"])
		assert.Equal(t, "hook-failed", job.Annotations["helm.sh/hook-output-log-policy"])
		pod := job.Spec.Template.Spec
		var servers, cas []string
		for _, arg := range pod.Containers[0].Args {
			if given, ok := strings.CutPrefix(arg, "--group-etcd-servers="); ok {
				servers = append(servers, given)
			}
			if given, ok := strings.CutPrefix(arg, "--group-etcd-cafile="); ok {
				cas = append(cas, given)
			}
		}
		planned, err := groupcheck.Parse(servers, cas, nil, nil, nil)
		require.NoError(t, err)
		require.Len(t, planned, 2, "a group and a pattern")
		for _, etcd := range planned {
			assert.Equal(t, want.Servers, etcd.Servers)
			assert.Equal(t, "/etc/tripod/extensions-big/ca.crt", etcd.CAFile)
		}
		i := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/tripod/extensions-big" })
		require.GreaterOrEqual(t, i, 0)
		for _, volume := range pod.Volumes {
			if volume.Name == pod.Containers[0].VolumeMounts[i].Name {
				assert.Equal(t, want.CAFile, volume.Secret.SecretName)
				assert.True(t, *volume.Secret.Optional)
			}
		}
		assert.Contains(t, pod.Containers[0].Args, "--endpoints=https://tripod-etcd-0.tripod-etcd.control.svc:2379")
	}
}

// TestAStoppedEtcdOfAPartitionDoesNotRefuseWhatStartsIt upgrades while it is restored.
func TestAStoppedEtcdOfAPartitionDoesNotRefuseWhatStartsIt(t *testing.T) {
	values := merged(t, withPartitions, ownEtcd)
	running := render(t, values)
	objects := []metav1.Object{
		find(t, running, "Deployment", "tripod-extensions-big", &appsv1.Deployment{}), find(t, running, "StatefulSet", "tripod-etcd", &appsv1.StatefulSet{}),
		find(t, running, "StatefulSet", "tripod-etcd-extensions-big", &appsv1.StatefulSet{}),
	}
	for _, object := range objects {
		object.SetNamespace(namespace)
	}
	objects[1].(*appsv1.StatefulSet).Status.ReadyReplicas = 1
	for replicas, want := range map[int32]int{0: 2, 1: 0} {
		objects[2].(*appsv1.StatefulSet).Status.ReadyReplicas = replicas
		text, err := helmTemplate(t, values, "--is-upgrade", "--dry-run=server", "--kube-apiserver="+clusterWith(t, objects...))
		require.NoError(t, err)
		args := find(t, parse(t, text), "Job", "tripod-check-groups", &batchv1.Job{}).Spec.Template.Spec.Containers[0].Args
		stopped := slices.DeleteFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "--group-etcd-stopped=") })
		assert.Len(t, stopped, want, "with %d ready replicas", replicas)
	}
}

// TestTheCheckOfAnUpgradeNeedsACertificate has an etcd that only services may use, with certificates of their own.
func TestTheCheckOfAnUpgradeNeedsACertificate(t *testing.T) {
	external := merged(t, withPartitions, theirsEtcd,
		"etcd: {enabled: false, external: {servers: ['https://two:2379'], serviceSecrets: {core: c, extensions: e, aggregator: a}}}")
	assert.NotContains(t, upgraded(t, external, external, nil).text, "- check-groups\n")
}

// TestTheCheckOfAnUpgradeAsksTheEtcdThatRuns has the etcd of extensions divided, and united again. The new one has no definitions yet.
func TestTheCheckOfAnUpgradeAsksTheEtcdThatRuns(t *testing.T) {
	shared, perService := merged(t, withPartitions, ownEtcd), merged(t, withPartitions, ownEtcd, divided)
	for name, test := range map[string]struct{ before, after, want string }{
		"divided":   {shared, perService, "tripod-etcd"},
		"united":    {perService, shared, "tripod-etcd-extensions"},
		"as before": {perService, perService, "tripod-etcd-extensions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			running := render(t, test.before)
			deployment := find(t, running, "Deployment", "tripod-extensions", &appsv1.Deployment{})
			partition := find(t, running, "Deployment", "tripod-extensions-big", &appsv1.Deployment{})
			set := find(t, running, "StatefulSet", test.want, &appsv1.StatefulSet{})
			set.Status.ReadyReplicas = 1
			for _, object := range []metav1.Object{deployment, partition, set} {
				object.SetNamespace(namespace)
			}
			text, err := helmTemplate(t, test.after, "--is-upgrade", "--dry-run=server", "--kube-apiserver="+clusterWith(t, deployment, partition, set))
			require.NoError(t, err)
			pod := find(t, parse(t, text), "Job", "tripod-check-groups", &batchv1.Job{}).Spec.Template.Spec
			assert.Contains(t, pod.Containers[0].Args, "--endpoints=https://"+test.want+"-0."+test.want+".control.svc:2379")
			var secrets []string
			for _, volume := range pod.Volumes {
				if volume.Projected != nil {
					for _, source := range volume.Projected.Sources {
						secrets = append(secrets, source.Secret.Name)
					}
				}
			}
			assert.Equal(t, []string{test.want + "-client"}, secrets)
		})
	}
}

// TestTheCheckOfAnUpgradeKnowsEtcdsInFlags has them as arguments of a partition, for whose etcds the Job has no certificates.
func TestTheCheckOfAnUpgradeKnowsEtcdsInFlags(t *testing.T) {
	values := merged(t, withPartitions, ownEtcd, "extensions: {partitions: {shop: {extraArgs: ['--group-etcd-servers=*.shop.example.com=https://one:1,https://two:1']}}}")
	args := find(t, upgraded(t, values, values, nil), "Job", "tripod-check-groups", &batchv1.Job{}).Spec.Template.Spec.Containers[0].Args
	var servers, stopped []string
	for _, arg := range args {
		if given, ok := strings.CutPrefix(arg, "--group-etcd-servers="); ok {
			servers = append(servers, given)
		}
		if given, ok := strings.CutPrefix(arg, "--group-etcd-stopped="); ok {
			stopped = append(stopped, given)
		}
	}
	planned, err := groupcheck.Parse(servers, nil, nil, nil, stopped)
	require.NoError(t, err)
	require.Len(t, planned, 3, "two groups of big, and the pattern of the flag")
	assert.Equal(t, groupcheck.Etcd{Pattern: "*.shop.example.com", Servers: []string{"https://one:1", "https://two:1"}, Stopped: true}, planned[0])
	assert.False(t, planned[1].Stopped || planned[2].Stopped)
}
