// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/tripod-k8s/tripod/services/search/options"
	search "github.com/tripod-k8s/tripod/services/search/server"
)

func TestSearchWithADatabaseAnswersAndCopiesApart(t *testing.T) {
	r := render(t, merged(t, withDatabase, "search: {serve: {replicas: 3}, sync: {replicas: 2}}", withMonitors))
	checkAccepted(t, r)
	kinds := map[string][]string{}
	for _, object := range r.objects {
		kinds[object.GetName()] = append(kinds[object.GetName()], object.GetKind())
	}
	assert.ElementsMatch(t, []string{"Deployment", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy", "Service", "ServiceMonitor"}, kinds["tripod-search"])
	assert.ElementsMatch(t, []string{"Deployment", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"}, kinds["tripod-search-sync"], "nobody connects to it")
	for name, want := range map[string]struct {
		role     string
		replicas int32
	}{"tripod-search": {"serve", 3}, "tripod-search-sync": {"sync", 2}} {
		deployment := find(t, r, "Deployment", name, &appsv1.Deployment{})
		assert.Equal(t, want.replicas, *deployment.Spec.Replicas)
		pod := deployment.Spec.Template.Spec
		assert.Subset(t, pod.Containers[0].Args, []string{"--roles=" + want.role, "--database-file=/etc/tripod/database/url", "--hub-cluster=hub"})
		assert.Regexp(t, "^localhost/tripod-k8s/tripod-search:.+", pod.Containers[0].Image)
		secrets := map[string]bool{}
		for _, volume := range pod.Volumes {
			if volume.Secret != nil {
				secrets[volume.Secret.SecretName] = true
			}
			if volume.Projected != nil {
				secrets[volume.Projected.Sources[0].Secret.Name] = true
			}
		}
		assert.Equal(t, map[string]bool{"where": true, "tripod-search": true}, secrets, "the database, and the certificate of the service")
	}
	assert.Empty(t, find(t, r, "NetworkPolicy", "tripod-search-sync", &networkingv1.NetworkPolicy{}).Spec.Ingress)
	for _, of := range []string{"tripod-core"} {
		var from []string
		for _, peer := range find(t, r, "NetworkPolicy", of, &networkingv1.NetworkPolicy{}).Spec.Ingress[0].From {
			from = append(from, peer.PodSelector.MatchLabels["app.kubernetes.io/component"])
		}
		assert.ElementsMatch(t, []string{"aggregator", "extensions", "search", "search-sync"}, from)
	}
}

func TestSearchWithoutADatabaseIsOneReplicaWithAVolume(t *testing.T) {
	r := render(t, withSearch)
	checkAccepted(t, r)
	deployment := find(t, r, "Deployment", "tripod-search", &appsv1.Deployment{})
	assert.Equal(t, appsv1.RecreateDeploymentStrategyType, deployment.Spec.Strategy.Type, "two cannot have the volume")
	container := deployment.Spec.Template.Spec.Containers[0]
	assert.Contains(t, container.Args, "--database=sqlite:/var/lib/tripod-search/search.db")
	for _, arg := range container.Args {
		assert.NotContains(t, arg, "--roles", "it does both")
	}
	claim := find(t, r, "PersistentVolumeClaim", "tripod-search", &corev1.PersistentVolumeClaim{})
	assert.Nil(t, claim.Spec.StorageClassName)
	require.NotEmpty(t, container.VolumeMounts)
	assert.Contains(t, container.VolumeMounts, corev1.VolumeMount{Name: "database", MountPath: "/var/lib/tripod-search"})
	for _, object := range r.objects {
		assert.NotEqual(t, "tripod-search-sync", object.GetName())
	}
}

// TestReplicasOfSearchHaveTheMemoryThatTheyMayTake compares the limits of pods with the budgets of their roles.
func TestReplicasOfSearchHaveTheMemoryThatTheyMayTake(t *testing.T) {
	for _, test := range []struct {
		values, deployment string
		roles              []string
	}{
		{withSearch, "tripod-search", []string{"serve", "sync"}},
		{withDatabase, "tripod-search", []string{"serve"}},
		{withDatabase, "tripod-search-sync", []string{"sync"}},
	} {
		pod := find(t, render(t, test.values), "Deployment", test.deployment, &appsv1.Deployment{}).Spec.Template.Spec
		o := options.New()
		o.Roles = test.roles
		limit := pod.Containers[0].Resources.Limits.Memory().Value()
		assert.LessOrEqual(t, search.Sum(search.Budgets(o)), limit*95/100, "GOMEMLIMIT of %s with %v", test.deployment, test.roles)
	}
}

// TestLimitsOfClustersAreThoseOfReplicasThatCopy has all of them, so that each is a flag of search.
func TestLimitsOfClustersAreThoseOfReplicasThatCopy(t *testing.T) {
	const values = "search: {members: {allow: [insecure-tls], limits: {max-object-size: 11Mi, max-document-size: 17Mi, max-resources: 7, " +
		"max-objects: 3000000, max-size: 5Gi, max-changes: 9, watches: 900, timeout: 1m, memory: 600Mi}}, templates: {memory: 300000000, time: 2s}}"
	want := []string{
		"--member-allow=insecure-tls", "--member-max-object-size=11Mi", "--member-max-document-size=17Mi", "--member-max-resources=7",
		"--member-max-objects=3000000", "--member-max-size=5Gi", "--member-max-changes=9", "--member-watches=900", "--member-timeout=1m", "--member-memory=600Mi",
		"--template-memory=300000000", "--template-time=2s",
	}
	r := render(t, merged(t, withDatabase, values))
	checkAccepted(t, r)
	args := func(r release, name string) []string {
		return find(t, r, "Deployment", name, &appsv1.Deployment{}).Spec.Template.Spec.Containers[0].Args
	}
	assert.Subset(t, args(r, "tripod-search-sync"), want)
	for _, flag := range want {
		assert.NotContains(t, args(r, "tripod-search"), flag, "it copies nothing")
	}
	assert.Subset(t, args(render(t, merged(t, withSearch, values)), "tripod-search"), want)
}

func TestSearchWithPostgreSQLInTheRelease(t *testing.T) {
	r := render(t, withPostgres)
	checkAccepted(t, r)
	database := find(t, r, "StatefulSet", "tripod-search-database", &appsv1.StatefulSet{})
	assert.Equal(t, int32(1), *database.Spec.Replicas)
	for _, name := range []string{"tripod-search", "tripod-search-sync"} {
		pod := find(t, r, "Deployment", name, &appsv1.Deployment{}).Spec.Template.Spec
		assert.Contains(t, pod.Containers[0].Args, "--database=postgres://search@tripod-search-database.control.svc/search?sslmode=verify-full"+
			"&sslrootcert=/etc/tripod/database/ca.crt&sslcert=/etc/tripod/database/tls.crt&sslkey=/etc/tripod/database/tls.key")
	}
	var from []string
	policy := find(t, r, "NetworkPolicy", "tripod-search-database", &networkingv1.NetworkPolicy{}).Spec
	for _, peer := range policy.Ingress[0].From {
		from = append(from, peer.PodSelector.MatchLabels["app.kubernetes.io/component"])
	}
	assert.ElementsMatch(t, []string{"search", "search-sync"}, from)
	assert.Empty(t, policy.Egress)
	assert.Contains(t, policy.PolicyTypes, networkingv1.PolicyTypeEgress)
}
