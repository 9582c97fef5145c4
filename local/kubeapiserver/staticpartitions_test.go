// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	cliflag "k8s.io/component-base/cli/flag"

	aggregatoroptions "github.com/tripod-k8s/tripod/services/aggregator/options"
	extensionsoptions "github.com/tripod-k8s/tripod/services/extensions/options"
)

var divided = []string{"shop=shop.example.com", "big=*.example.org,example.org"}

// parses checks that a service has the flags that its pod gives it.
func parses(t *testing.T, pod corev1.Pod, named *cliflag.NamedFlagSets) {
	t.Helper()
	fs := pflag.NewFlagSet(pod.Name, pflag.ContinueOnError)
	for _, set := range named.FlagSets {
		fs.AddFlagSet(set)
	}
	assert.NoError(t, fs.Parse(pod.Spec.Containers[0].Command[1:]), pod.Name)
}

func TestStaticPodsOfPartitions(t *testing.T) {
	p := StaticPods{
		Manifest: kubeadmManifest(t, "--debug-socket-path=/var/log/debug.sock", "--enable-admission-plugins=NodeRestriction,NamespaceExists"),
		CertDir:  filepath.Join(t.TempDir(), "tripod"), Partitions: divided, Replicas: map[string]int{"extensions-big": 2},
	}
	pods, err := podsOf(t, p)
	require.NoError(t, err)
	require.Len(t, pods, 6)
	table := []string{"--partition-groups=shop=shop.example.com", "--partition-groups=big=*.example.org,example.org"}
	probes := map[int32]bool{}
	for file, want := range map[string][]string{
		"tripod-extensions.yaml":       append([]string{"--secure-port=7443", "--debug-socket-path=/var/log/debug-extensions.sock"}, table...),
		"tripod-extensions-shop.yaml":  append([]string{"--secure-port=7530", "--partition=shop", "--debug-socket-path=/var/log/debug-extensions-shop.sock"}, table...),
		"tripod-extensions-big.yaml":   append([]string{"--secure-port=7557", "--partition=big", "--replica=1"}, table...),
		"tripod-extensions-big-2.yaml": append([]string{"--secure-port=7560", "--grpc-bind-address=127.0.0.1:7561", "--partition=big", "--replica=2"}, table...),
	} {
		pod := pods[file]
		require.NotEmpty(t, pod.Spec.Containers, file)
		container := pod.Spec.Containers[0]
		assert.Equal(t, "tripod-extensions", container.Command[0], file)
		assert.Equal(t, "docker.io/tripod-k8s/tripod-extensions:v1", container.Image, file)
		assert.Subset(t, container.Command, append(want, "--core-servers=https://127.0.0.1:7440", "--enable-admission-plugins=NamespaceExists"), file)
		assert.Equal(t, smallRequest, container.Resources.Requests.Cpu().String(), file)
		parses(t, pod, extensionsoptions.New().Flags())
		probes[container.LivenessProbe.HTTPGet.Port.IntVal] = true
	}
	assert.Len(t, probes, 4, "each has a port of its own")
	command := pods["kube-apiserver.yaml"].Spec.Containers[0].Command
	assert.Subset(t, command, []string{
		"--backend=extensions-shop=https://127.0.0.1:7530", "--backend-grpc=extensions-shop=127.0.0.1:7531", "--backend-groups=extensions-shop=shop.example.com",
		"--backend=extensions-big=https://127.0.0.1:7557,https://127.0.0.1:7560", "--backend-grpc=extensions-big=127.0.0.1:7558,127.0.0.1:7561",
		"--backend-groups=extensions-big=*.example.org,example.org", "--apiservice-form=local",
	})
	parses(t, pods["kube-apiserver.yaml"], aggregatoroptions.New().Flags())
	users := map[int64]bool{}
	for _, pod := range pods {
		users[*pod.Spec.SecurityContext.RunAsUser] = true
	}
	assert.Len(t, users, 5, "each service has a user of its own: %v", users)
}

// TestAPartitionHasAnIdentityOfItsOwn looks at the certificates by which the other services and etcd know it.
func TestAPartitionHasAnIdentityOfItsOwn(t *testing.T) {
	flags, _ := etcdOfKubeadm(t)
	p := StaticPods{Manifest: kubeadmManifest(t, flags...), CertDir: filepath.Join(t.TempDir(), "tripod"), Partitions: divided}
	pods, err := podsOf(t, p)
	require.NoError(t, err)
	for _, name := range []string{"tripod-extensions", "tripod-extensions-shop", "tripod-extensions-big"} {
		pod := pods[name+".yaml"]
		has, command := seen(t, &pod), pod.Spec.Containers[0].Command
		cert, _ := etcdCertificate(t, command, has)
		assert.Equal(t, name, cert.Subject.CommonName, "the user in etcd")
		var ofService string
		for _, argument := range command {
			if file, ok := strings.CutPrefix(argument, "--service-cert-file="); ok {
				ofService = file
			}
		}
		require.Contains(t, has, ofService)
		content, err := os.ReadFile(has[ofService])
		require.NoError(t, err)
		block, _ := pem.Decode(content)
		service, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		backend := strings.TrimPrefix(name, "tripod-")
		assert.Equal(t, "system:tripod:"+backend, service.Subject.CommonName)
		assert.Contains(t, service.DNSNames, backend+".tripod-system.svc")
		keys := 0
		for path := range has {
			if strings.HasSuffix(path, ".key") {
				keys++
			}
		}
		assert.Equal(t, 2, keys, "%s sees keys of others: %v", name, has)
	}
}

func TestPortsOfAPartitionStayWhenOthersCome(t *testing.T) {
	before, err := newNode(divided, nil)
	require.NoError(t, err)
	after, err := newNode(append(divided, "another=a.example.net"), map[string]int{"extensions-big": maxStaticReplicas})
	require.NoError(t, err)
	seen := map[int32]string{}
	for _, service := range after.services {
		for i, r := range after.of(service) {
			ports := after.ports(r)
			if i == 0 && service != "extensions-another" {
				assert.Equal(t, before.ports(r), ports, service)
			}
			for _, port := range []int32{ports.serving, ports.grpc, ports.probes} {
				if port != 0 {
					assert.Empty(t, seen[port], "%d of %s", port, service)
					seen[port] = string(service)
				}
			}
		}
	}
}

func TestPartitionsThatANodeCannotHave(t *testing.T) {
	var many []string
	for i := range maxStaticPartitions + 1 {
		many = append(many, fmt.Sprintf("p%d=p%[1]d.example.com", i))
	}
	for want, given := range map[string][]string{
		"apps has the group apps, which is built in": {"a=apps"},
		"overlap":                       {"a=*.example.com", "b=b.example.com"},
		"name at least one API group":   {"a="},
		"matches every API group":       {"a=*"},
		`"2" ends with a number`:        {"2=example.com"},
		`"big-3" ends with a number`:    {"big-3=example.com"},
		"a node has at most 10":         many,
		"is not of the form NAME=GROUP": {"a"},
	} {
		_, err := podsOf(t, StaticPods{Manifest: kubeadmManifest(t), CertDir: filepath.Join(t.TempDir(), "tripod"), Partitions: given})
		assert.ErrorContains(t, err, want)
	}
	_, err := podsOf(t, StaticPods{
		Manifest: kubeadmManifest(t), CertDir: filepath.Join(t.TempDir(), "tripod"), Partitions: divided, Users: map[string]int{"extensions-other": 1},
	})
	assert.ErrorContains(t, err, `users: "extensions-other" is none of core, extensions, extensions-shop, extensions-big and aggregator`)
}

func TestPartitionsInTheManifestBelongToTheCommand(t *testing.T) {
	_, err := podsOf(t, StaticPods{
		Manifest: kubeadmManifest(t, "--extensions-partition=a=example.com"), CertDir: filepath.Join(t.TempDir(), "tripod"),
	})
	assert.ErrorContains(t, err, "the manifest has --extensions-partition: give that flag to this command, and take it out of the manifest")
}

func TestAFormerPartitionGoes(t *testing.T) {
	p := StaticPods{Manifest: kubeadmManifest(t), CertDir: filepath.Join(t.TempDir(), "tripod"), Partitions: divided}
	first, err := makePods(t, p)
	require.NoError(t, err)
	dir := t.TempDir()
	say := func(string) {}
	require.NoError(t, Rollout(t.Context(), dir, first.Manifests, say))
	require.NoError(t, first.RemoveOthers())
	assert.FileExists(t, filepath.Join(dir, "tripod-extensions-big.yaml"))
	assert.DirExists(t, filepath.Join(p.CertDir, "extensions-big"))

	p.Partitions = divided[:1]
	second, err := makePods(t, p)
	require.NoError(t, err)
	assert.DirExists(t, filepath.Join(p.CertDir, "extensions-big"), "it may still run")
	require.NoError(t, Rollout(t.Context(), dir, second.Manifests, say))
	require.NoError(t, second.RemoveOthers())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var files []string
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	assert.Equal(t, []string{"kube-apiserver.yaml", "tripod-core.yaml", "tripod-extensions-shop.yaml", "tripod-extensions.yaml"}, files)
	assert.NoDirExists(t, filepath.Join(p.CertDir, "extensions-big"))
	assert.DirExists(t, filepath.Join(p.CertDir, "extensions-shop"))
}
