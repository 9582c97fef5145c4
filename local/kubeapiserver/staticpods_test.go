// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/base/certs"
)

// kubeadmManifest is like what kubeadm writes.
func kubeadmManifest(t *testing.T, more ...string) []byte {
	t.Helper()
	flags := required(t)
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	ca, err := store.Authority("ca", "kubernetes")
	require.NoError(t, err)
	_, err = ca.Ensure("apiserver", certs.Leaf{CommonName: "kube-apiserver", DNSNames: []string{"localhost"}, Server: true})
	require.NoError(t, err)
	flags = append(flags, "--tls-cert-file="+store.CertFile("apiserver"), "--tls-private-key-file="+store.KeyFile("apiserver"), "--secure-port=6443")
	return []byte(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  annotations: {kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: "192.0.2.1:6443"}
  labels: {component: kube-apiserver, tier: control-plane}
  name: kube-apiserver
  namespace: kube-system
spec:
  hostNetwork: true
  containers:
  - name: kube-apiserver
    image: registry.k8s.io/kube-apiserver:v1.36.3
    command:
    - kube-apiserver
    - %s
    livenessProbe: {httpGet: {host: 192.0.2.1, path: /livez, port: 6443, scheme: HTTPS}}
    resources: {requests: {cpu: 250m}}
    volumeMounts:
    - {mountPath: /etc/kubernetes/pki, name: k8s-certs, readOnly: true}
    - {mountPath: /etc/ssl/certs, name: ca-certs, readOnly: true}
    - {mountPath: /var/log, name: logs}
  volumes:
  - {name: k8s-certs, hostPath: {path: /etc/kubernetes/pki, type: DirectoryOrCreate}}
  - {name: ca-certs, hostPath: {path: /etc/ssl/certs, type: DirectoryOrCreate}}
  - {name: logs, hostPath: {path: %s}}
`, strings.Join(append(flags, more...), "\n    - "), filepath.Join(t.TempDir(), "logs")))
}

func staticPods(t *testing.T, manifest []byte, replicas map[string]int) (map[string]corev1.Pod, error) {
	t.Helper()
	return podsOf(t, StaticPods{Manifest: manifest, CertDir: filepath.Join(t.TempDir(), "tripod"), Replicas: replicas})
}

func podsOf(t *testing.T, p StaticPods) (map[string]corev1.Pod, error) {
	t.Helper()
	made, err := makePods(t, p)
	if err != nil {
		return nil, err
	}
	return parsed(t, made), nil
}

func parsed(t *testing.T, made *Made) map[string]corev1.Pod {
	t.Helper()
	pods := map[string]corev1.Pod{}
	for _, m := range made.Manifests {
		var pod corev1.Pod
		require.NoError(t, yaml.UnmarshalStrict(m.Content, &pod))
		pods[m.File] = pod
	}
	return pods
}

// makePods makes static pods. Only root may give files to other users, so here the owner stays.
func makePods(t *testing.T, p StaticPods) (*Made, error) {
	t.Helper()
	require.NoError(t, logsapi.ResetForTest(utilfeature.DefaultFeatureGate))
	p.Repository, p.Tag = "docker.io/tripod-k8s", "v1"
	if p.chown == nil {
		p.chown = func(string, int, int) error { return nil }
	}
	return p.Make(t.Context())
}

func TestStaticPodsOfTheServices(t *testing.T) {
	pods, err := staticPods(t, kubeadmManifest(t, "--audit-log-path=/var/log/audit.log", "--audit-log-maxage=2", "--goaway-chance=0.001"), nil)
	require.NoError(t, err)
	require.Len(t, pods, 3)
	aggregator, core, extensions := pods["kube-apiserver.yaml"], pods["tripod-core.yaml"], pods["tripod-extensions.yaml"]
	for pod, want := range map[*corev1.Pod][]string{
		&aggregator: {
			"tripod-aggregator", "--secure-port=6443", "--goaway-chance=0.001", "--core-servers=https://127.0.0.1:7440", "--core-grpc-servers=127.0.0.1:7441",
			"--extensions-servers=https://127.0.0.1:7443", "--extensions-grpc-servers=127.0.0.1:7444", "--apiservice-form=local", "--audit-log-path=/var/log/audit.log",
		},
		&core:       {"tripod-core", "--secure-port=7440", "--advertise-port=6443", "--aggregator-servers=https://127.0.0.1:6443", "--audit-log-path=/var/log/audit.log", "--audit-log-maxage=2"},
		&extensions: {"tripod-extensions", "--secure-port=7443", "--core-servers=https://127.0.0.1:7440", "--audit-log-path=/var/log/audit.log"},
	} {
		container := pod.Spec.Containers[0]
		for _, argument := range want {
			assert.Contains(t, container.Command, argument, pod.Name)
		}
		assert.Equal(t, "docker.io/tripod-k8s/"+want[0]+":v1", container.Image)
	}
	assert.Equal(t, "kube-apiserver", aggregator.Labels["component"])
	assert.Equal(t, "192.0.2.1", aggregator.Spec.Containers[0].LivenessProbe.HTTPGet.Host)
	assert.Equal(t, "tripod-core", core.Labels["component"])
	assert.Empty(t, core.Annotations)
	probe := core.Spec.Containers[0].LivenessProbe.HTTPGet
	assert.Equal(t, "http://127.0.0.1:7442/livez", fmt.Sprintf("%s://%s:%d%s", strings.ToLower(string(probe.Scheme)), probe.Host, probe.Port.IntVal, probe.Path))
	assert.Equal(t, "250m", core.Spec.Containers[0].Resources.Requests.Cpu().String())
	assert.Equal(t, smallRequest, extensions.Spec.Containers[0].Resources.Requests.Cpu().String())
}

func TestSeveralReplicasOfAService(t *testing.T) {
	pods, err := staticPods(t, kubeadmManifest(t, "--audit-log-path=/var/log/audit.log"), map[string]int{"core": 3, "extensions": 2, "aggregator": 2})
	require.NoError(t, err)
	require.Len(t, pods, 7)
	const (
		cores = "https://127.0.0.1:7440,https://127.0.0.1:7450,https://127.0.0.1:7460"
		toAll = "--aggregator-servers=https://127.0.0.1:7446,https://127.0.0.1:7456"
	)
	for file, want := range map[string][]string{
		"kube-apiserver.yaml":      {"--bind-address=127.0.0.1", "--secure-port=7446", "--replica=1", "--audit-log-path=/var/log/audit.log"},
		"tripod-aggregator-2.yaml": {"--bind-address=127.0.0.1", "--secure-port=7456", "--replica=2", "--audit-log-path=/var/log/audit.log"},
		"tripod-core.yaml":         {"--secure-port=7440", "--replica=1", toAll, "--audit-log-path=/var/log/audit.log"},
		"tripod-core-3.yaml":       {"--secure-port=7460", "--replica=3", toAll, "--advertise-port=6443", "--audit-log-path=/var/log/audit.log"},
		"tripod-extensions-2.yaml": {"--secure-port=7453", "--replica=2", toAll, "--core-servers=" + cores},
	} {
		pod := pods[file]
		require.NotEmpty(t, pod.Spec.Containers, file)
		container := pod.Spec.Containers[0]
		for _, argument := range want {
			assert.Contains(t, container.Command, argument, file)
		}
		assert.Equal(t, strings.TrimSuffix(file, ".yaml"), pod.Name)
		assert.EqualValues(t, handoverSeconds, *pod.Spec.TerminationGracePeriodSeconds)
		probe := container.LivenessProbe.HTTPGet
		assert.Contains(t, container.Command, fmt.Sprintf("--probe-bind-address=%s:%d", probe.Host, probe.Port.IntVal), "the probes ask this replica alone")
	}
	for _, file := range []string{"kube-apiserver.yaml", "tripod-aggregator-2.yaml"} {
		command := pods[file].Spec.Containers[0].Command
		for _, argument := range []string{
			"--shared-bind-address=0.0.0.0:6443", "--core-servers=" + cores, "--core-grpc-servers=127.0.0.1:7441,127.0.0.1:7451,127.0.0.1:7461",
			"--extensions-servers=https://127.0.0.1:7443,https://127.0.0.1:7453", "--extensions-grpc-servers=127.0.0.1:7444,127.0.0.1:7454",
		} {
			assert.Contains(t, command, argument, file)
		}
		assert.NotContains(t, strings.Join(command, " "), "--shutdown-", "the aggregator moves its clients before it stops")
	}
	assert.NotEmpty(t, pods["kube-apiserver.yaml"].Annotations)
	assert.Empty(t, pods["tripod-aggregator-2.yaml"].Annotations, "kubeadm looks for one pod")
}

func TestNumbersOfReplicasThatAreWrong(t *testing.T) {
	for want, replicas := range map[string]map[string]int{
		`"etcd" is none of core, extensions and aggregator`: {"etcd": 3},
		"core has 0, want 1 to 9":                           {"core": 0},
		"extensions has 10, want 1 to 9":                    {"core": 9, "extensions": 10},
	} {
		_, err := staticPods(t, kubeadmManifest(t), replicas)
		assert.ErrorContains(t, err, want)
	}
}

func TestManifestsThatAreNotKubeadms(t *testing.T) {
	good := string(kubeadmManifest(t))
	for want, manifest := range map[string]string{
		"the manifest is no pod":       "kind: [",
		"0 containers":                 "kind: Pod",
		"command in the manifest":      strings.Replace(good, "- kube-apiserver\n", "- tripod-aggregator\n", 1),
		"unknown flag: --no-such-flag": strings.Replace(good, "--secure-port=6443", "--no-such-flag", 1),
		"service-account-issuer":       strings.Replace(good, "    - --service-account-issuer=https://kubernetes.default.svc\n", "", 1),
	} {
		t.Run(want, func(t *testing.T) {
			_, err := staticPods(t, []byte(manifest), nil)
			assert.ErrorContains(t, err, want)
		})
	}
	_, err := os.Stat("/etc/kubernetes/pki/tripod")
	assert.Error(t, err, "a test wrote to the default directory")
}
