// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

const withOwnBucket = "etcd: {snapshots: {enabled: true, serviceAccountAnnotations: {role: snapshots}, " +
	"s3: {bucket: backups, endpoint: 'https://s3.example.com:9000', secret: s3, caConfigMap: s3-ca}}}"

func TestSnapshotsInABucketNeedNoVolume(t *testing.T) {
	r := render(t, withOwnBucket)
	checkAccepted(t, r)
	assert.NotContains(t, r.text, "tripod-etcd-snapshots-", "a Job for a claim")
	for _, object := range r.objects {
		assert.NotEqual(t, "PersistentVolumeClaim", object.GetKind(), object.GetName())
	}
	job := find(t, r, "CronJob", "tripod-etcd-snapshot", &batchv1.CronJob{})
	container := job.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	assert.Subset(t, container.Args, []string{"--directory=s3://backups/control/tripod", "--name=etcd", "--keep=14",
		"--s3-endpoint=https://s3.example.com:9000", "--s3-cacert=/etc/tripod/s3/ca.crt"})
	var secret []string
	for _, variable := range container.Env {
		require.NotNil(t, variable.ValueFrom.SecretKeyRef, variable.Name)
		secret = append(secret, variable.ValueFrom.SecretKeyRef.Name+"/"+variable.Name)
	}
	assert.Equal(t, []string{"s3/AWS_ACCESS_KEY_ID", "s3/AWS_SECRET_ACCESS_KEY", "s3/AWS_SESSION_TOKEN"}, secret)
	checkMounts(t, job.Spec.JobTemplate.Spec.Template.Spec, "/tmp", "/etc/tripod/s3", "/etc/tripod/pki")
}

// checkMounts checks where all volumes of a pod are mounted in its first container.
func checkMounts(t *testing.T, pod corev1.PodSpec, want ...string) {
	t.Helper()
	var volumes, mounted, paths []string
	for _, volume := range pod.Volumes {
		volumes = append(volumes, volume.Name)
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounted = append(mounted, mount.Name)
		paths = append(paths, mount.MountPath)
	}
	assert.ElementsMatch(t, volumes, mounted)
	assert.ElementsMatch(t, want, paths)
}

func TestEtcdIsRestoredFromABucket(t *testing.T) {
	for snapshot, location := range map[string]string{
		"etcd-20261121T060500Z.db": "s3://backups/control/tripod/etcd-20261121T060500Z.db",
		"s3://others/a/b.db":       "s3://others/a/b.db",
	} {
		r := render(t, merged(t, withOwnBucket, "etcd: {restore: {snapshot: '"+snapshot+"'}}"))
		checkAccepted(t, r)
		i := slices.IndexFunc(r.pods(t), func(p pod) bool { return p.owner == "StatefulSet tripod-etcd" })
		require.GreaterOrEqual(t, i, 0)
		spec := r.pods(t)[i].spec
		restore := spec.InitContainers[0]
		assert.Subset(t, restore.Args, []string{location, "--replace", "--s3-endpoint=https://s3.example.com:9000", "--s3-cacert=/etc/tripod/s3/ca.crt"})
		assert.True(t, slices.ContainsFunc(restore.Env, func(v corev1.EnvVar) bool { return v.Name == "AWS_SECRET_ACCESS_KEY" }))
		assert.False(t, slices.ContainsFunc(spec.Containers[0].Env, func(v corev1.EnvVar) bool { return strings.HasPrefix(v.Name, "AWS_") }),
			"etcd itself gets the credentials")
		for _, volume := range spec.Volumes {
			assert.NotEqual(t, "snapshots", volume.Name)
		}
	}
}

// Only pods that use the bucket reach it, or get the role that may.
func TestWhoReachesTheBucket(t *testing.T) {
	reach := func(r release, policy string) (ports []int) {
		for _, rule := range find(t, r, "NetworkPolicy", policy, &networkingv1.NetworkPolicy{}).Spec.Egress {
			if len(rule.To) > 0 && rule.To[0].IPBlock == nil {
				continue
			}
			for _, port := range rule.Ports {
				ports = append(ports, port.Port.IntValue())
			}
		}
		return ports
	}
	role := func(r release, account string) string {
		return find(t, r, "ServiceAccount", account, &corev1.ServiceAccount{}).Annotations["role"]
	}
	saving := render(t, withOwnBucket)
	assert.Equal(t, []int{9000}, reach(saving, "tripod-etcd-snapshots"))
	assert.Empty(t, reach(saving, "tripod-etcd"))
	assert.Equal(t, "snapshots", role(saving, "tripod-etcd-snapshots"))
	assert.Empty(t, role(saving, "tripod-etcd"))
	restoring := render(t, merged(t, withOwnBucket, "etcd: {restore: {snapshot: a.db}}"))
	assert.Equal(t, []int{9000}, reach(restoring, "tripod-etcd"))
	assert.Equal(t, "snapshots", role(restoring, "tripod-etcd"))
	// Without a Secret, pods ask the cloud for credentials.
	for endpoint, want := range map[string][]int{"": {443, 80}, "https://s3.example.com:9000": {9000, 443, 80}, "http://s3.example.com": {80, 443, 80}} {
		r := render(t, merged(t, withBucket, "etcd: {snapshots: {s3: {endpoint: '"+endpoint+"'}}}"))
		assert.Equal(t, want, reach(r, "tripod-etcd-snapshots"), endpoint)
	}
	assert.Empty(t, reach(render(t, withSnapshots), "tripod-etcd-snapshots"))
}
