// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// wardle is an additional API service with nothing but an image.
const wardle = "services: {wardle: {image: {repository: registry.example.com/wardle, tag: v1}}}"

func TestAnAdditionalServiceHasTheObjectsOfExtensions(t *testing.T) {
	with := "autoscaling: {enabled: true}"
	r := render(t, merged(t, wardle, "services: {wardle: {"+with+"}}", "extensions: {"+with+"}", withMonitors))
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
	assert.Equal(t, kinds("extensions"), kinds("wardle"))
	checkAccepted(t, r)
}

func TestAnAdditionalServiceIsADeploymentAsExtensionsIs(t *testing.T) {
	r := render(t, merged(t, wardle, "services: {wardle: {args: [--v=7]}}"))
	of := func(name string) corev1.PodSpec {
		return find(t, r, "Deployment", "tripod-"+name, &appsv1.Deployment{}).Spec.Template.Spec
	}
	own, extensions := of("wardle"), of("extensions")
	container := own.Containers[0]
	assert.Equal(t, "registry.example.com/wardle:v1", container.Image)
	assert.Equal(t, "--v=7", container.Args[len(container.Args)-1])
	assert.Contains(t, container.Args, "--etcd-prefix=/services/wardle")
	for _, arg := range extensions.Containers[0].Args {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case "--etcd-prefix":
		case "--authorization-mode":
			assert.NotContains(t, container.Args, arg)
		default:
			assert.Contains(t, container.Args, arg)
		}
	}
	assert.Equal(t, extensions.Containers[0].ReadinessProbe, container.ReadinessProbe)
	assert.Equal(t, extensions.Containers[0].LivenessProbe, container.LivenessProbe)
	assert.Equal(t, extensions.Containers[0].Ports, container.Ports)
	assert.Equal(t, extensions.SecurityContext, own.SecurityContext)
	assert.Equal(t, extensions.TerminationGracePeriodSeconds, own.TerminationGracePeriodSeconds)
}

func TestEveryValueOfAnAdditionalServiceDoesSomething(t *testing.T) {
	all := map[string][]change{}
	for _, c := range serviceChanges {
		c.path = strings.Replace(c.path, "extraArgs", "args", 1)
		c.want = strings.ReplaceAll(c.want, "SERVICE", "wardle")
		c.with = strings.ReplaceAll(c.with, "SERVICE", "wardle")
		name := "with " + c.with
		if c.alone {
			name = c.path
		}
		all[name] = append(all[name], c)
	}
	for _, c := range []change{
		{path: "image.repository", value: "example.com/other", want: "image: example.com/other:v1"},
		{path: "image.tag", value: "v2", want: "image: registry.example.com/wardle:v2", alone: true},
		{path: "image.digest", value: "sha256:" + digest, want: "image: registry.example.com/wardle:v1@sha256:" + digest + "\n", alone: true},
		{path: "image.pullPolicy", value: "Always", want: "imagePullPolicy: Always"},
		{path: "groups", value: "[a.example.com, b.example.com]", want: "- --service=wardle=/registry/a.example.com,/registry/b.example.com"},
		{path: "balance", value: "rendezvous", want: "- --backend-balance=wardle=rendezvous"},
		{path: "strategy", value: "Recreate", want: "  strategy:\n    type: Recreate\n", alone: true},
		{path: "etcd.servers", value: "['https://one:2379']", want: "- --etcd-servers=https://one:2379", alone: true},
		{path: "etcd.secret", value: "mine", want: "name: mine\n", with: "wardle: {etcd: {servers: ['https://one:2379']}}"},
	} {
		name := "and " + c.with
		if c.alone {
			name = c.path
		}
		all[name] = append(all[name], c)
	}
	for name, batch := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents := []string{wardle}
			if with := batch[0].with; with != "" {
				documents = append(documents, "services: {"+with+"}")
			}
			without := render(t, merged(t, documents...))
			for _, c := range batch {
				documents = append(documents, nested("services.wardle."+c.path, c.value))
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

func TestOnlyAnAdditionalServiceThatAsksForThemHasTheKeysOfEncryption(t *testing.T) {
	for values, want := range map[string]bool{"{}": false, "{encryption: true}": true} {
		r := render(t, merged(t, wardle, "services: {wardle: "+values+"}", "encryption: {existingSecret: keys}"))
		var mounted bool
		for _, volume := range find(t, r, "Deployment", "tripod-wardle", &appsv1.Deployment{}).Spec.Template.Spec.Volumes {
			mounted = mounted || volume.Secret != nil && volume.Secret.SecretName == "keys"
		}
		assert.Equal(t, want, mounted, values)
	}
}

// Two replicas of it would have different objects.
func TestAServiceThatKeepsItsObjectsByItselfHasOneReplica(t *testing.T) {
	const recreate = "services: {wardle: {strategy: Recreate}}"
	r := render(t, merged(t, wardle, recreate))
	deployment := find(t, r, "Deployment", "tripod-wardle", &appsv1.Deployment{})
	assert.Equal(t, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, deployment.Spec.Strategy)
	for _, more := range []string{"{replicas: 2}", "{autoscaling: {enabled: true}}"} {
		text, err := helmTemplate(t, merged(t, wardle, recreate, "services: {wardle: "+more+"}"))
		require.Error(t, err, more)
		assert.Contains(t, text+err.Error(), "services.wardle.strategy is Recreate, which is for one replica")
	}
}

func TestAnAdditionalServiceWithoutEtcdReachesNone(t *testing.T) {
	for _, etcd := range []string{"{}", "{etcd: {enabled: false, external: {servers: ['https://one:2379'], secret: mine}}}"} {
		without := render(t, merged(t, wardle, "services: {wardle: {etcd: {enabled: false}}}", etcd))
		checkAccepted(t, without)
		pod := find(t, without, "Deployment", "tripod-wardle", &appsv1.Deployment{}).Spec.Template.Spec
		for _, arg := range pod.Containers[0].Args {
			assert.NotContains(t, arg, "--etcd-")
		}
		for _, volume := range pod.Volumes {
			assert.NotContains(t, volume.String(), "etcd")
		}
		policy := find(t, without, "NetworkPolicy", "tripod-wardle", &networkingv1.NetworkPolicy{})
		for _, way := range policy.Spec.Egress {
			for _, port := range way.Ports {
				assert.NotEqual(t, "2379", port.Port.String())
			}
		}
		for _, trace := range []string{"etcd-client-wardle", "--service=wardle="} {
			assert.NotContains(t, without.text, trace)
		}
	}
	with := render(t, merged(t, wardle))
	assert.Contains(t, with.text, "etcd-client-wardle")
	assert.Contains(t, with.text, "--service=wardle=")
}
