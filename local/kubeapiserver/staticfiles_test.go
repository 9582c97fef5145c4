// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/base/certs"
)

// notPaths are the flags whose names sound as if they named paths.
var notPaths = sets.New(
	"aggregator-reject-forwarding-redirect", "allow-direct-clients", "audit-log-truncate-enabled", "audit-webhook-mode", "audit-webhook-version",
	"authentication-token-webhook-cache-ttl", "authentication-token-webhook-version", "authorization-webhook-cache-authorized-ttl",
	"authorization-webhook-cache-unauthorized-ttl", "authorization-webhook-version", "runtime-config", "runtime-config-emulation-forward-compatible",
	"encryption-provider-config-automatic-reload", "endpoint-reconciler-type", "strict-transport-security-directives",
	// static-pods does not use these, and so refuses no files
	"backends-file", "audit-log-socket", "cert-dir", "peer-ca-file",
)

func TestEachFlagThatNamesAPathIsKnown(t *testing.T) {
	sounds := regexp.MustCompile(`(^|-)(file|path|cert|certfile|cafile|keyfile|certificate|key|socket|dir|config|endpoint|authority|directory)(-|$)`)
	for service, flags := range newCatalog().flags {
		for _, name := range sets.List(flags) {
			if _, known := pathFlags[name]; sounds.MatchString(name) && !known && !notPaths.Has(name) {
				t.Errorf("%s has --%s: add it to pathFlags if it names a path, or else to notPaths", service, name)
			}
		}
	}
}

// files makes files with distinct contents, and returns their directory.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range contents {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(content, "DIR", dir)), 0o600))
	}
	return dir
}

// manyFiles are flags of kube-apiserver that name files of all kinds, and the files that only one service reads.
func manyFiles(t *testing.T) (dir string, flags []string, onlyFor map[string]serviceName) {
	t.Helper()
	dir = files(t, map[string]string{
		"kubelet.key": "k1", "kubelet.crt": "k2", "audit/policy.yaml": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]",
		"unnamed.key": "k5",
		"admission.yaml": "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n" +
			"- {name: ImagePolicyWebhook, path: image-policy/config.yaml}\n" +
			"- name: ValidatingAdmissionWebhook\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, " +
			"kubeConfigFile: DIR/webhooks/kubeconfig, staticManifestsDir: DIR/webhooks/static}",
		"image-policy/config.yaml":   "imagePolicy: {kubeConfigFile: DIR/image-policy/kubeconfig}",
		"image-policy/kubeconfig":    "users: [{name: a, user: {client-certificate: a.crt, client-key: a.key}}]",
		"image-policy/a.crt":         "k6",
		"image-policy/a.key":         "k7",
		"webhooks/kubeconfig":        "users: [{name: b, user: {tokenFile: b.token}}]",
		"webhooks/b.token":           "k8",
		"webhooks/static/hooks.yaml": "k9",
		"audit-webhook":              "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c",
	})
	flags = []string{
		"--kubelet-client-certificate=" + dir + "/kubelet.crt", "--kubelet-client-key=" + dir + "/kubelet.key",
		"--audit-policy-file=" + dir + "/audit/policy.yaml", "--audit-log-path=/var/log/audit.log",
		"--admission-control-config-file=" + dir + "/admission.yaml", "--audit-webhook-config-file=" + dir + "/audit-webhook",
	}
	store, err := certs.Open(filepath.Join(dir, "front-proxy"))
	require.NoError(t, err)
	ca, err := store.Authority("ca", "front-proxy-ca")
	require.NoError(t, err)
	_, err = ca.Ensure("client", certs.Leaf{CommonName: "front-proxy-client", Client: true})
	require.NoError(t, err)
	flags = append(flags, "--proxy-client-cert-file="+store.CertFile("client"), "--proxy-client-key-file="+store.KeyFile("client"))
	return dir, flags, map[string]serviceName{
		"/kubelet.key": core, "/image-policy/a.key": core, "/front-proxy/client.key": aggregator, "/sa.key": core, "/apiserver.key": aggregator,
		"/tripod/core.key": core, "/tripod/extensions.key": extensions, "/tripod/aggregator.key": aggregator,
		"/unnamed.key": "", "/front-proxy/ca.key": "", "/tripod/service-ca.key": "",
	}
}

// seen returns what a pod sees of the host in a directory: paths in the pod, and the files on the host.
func seen(t *testing.T, pod *corev1.Pod) map[string]string {
	t.Helper()
	result := map[string]string{}
	for i, mount := range pod.Spec.Containers[0].VolumeMounts {
		volume := pod.Spec.Volumes[i]
		require.Equal(t, mount.Name, volume.Name)
		if slices.Contains(trustStores, mount.MountPath) {
			assert.Equal(t, mount.MountPath, volume.HostPath.Path)
			assert.True(t, mount.ReadOnly)
			continue
		}
		require.NoError(t, filepath.WalkDir(volume.HostPath.Path, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				result[mount.MountPath+strings.TrimPrefix(path, volume.HostPath.Path)] = path
			}
			return err
		}))
	}
	return result
}

func TestEachStaticPodSeesItsOwnFilesOnly(t *testing.T) {
	dir, flags, onlyFor := manyFiles(t)
	certDir := filepath.Join(t.TempDir(), "tripod")
	pods, err := podsOf(t, StaticPods{Manifest: kubeadmManifest(t, flags...), CertDir: certDir, Replicas: map[string]int{"core": 2}})
	require.NoError(t, err)
	require.Len(t, pods, 4)
	for file, pod := range pods {
		service := serviceName(strings.TrimPrefix(pod.Spec.Containers[0].Command[0], "tripod-"))
		has := seen(t, &pod)
		named := strings.Join(pod.Spec.Containers[0].Command, "\n")
		for path, host := range has {
			content, err := os.ReadFile(host)
			require.NoError(t, err)
			original, err := os.ReadFile(path)
			require.NoError(t, err, "%s sees a file that the host does not have there", file)
			assert.Equal(t, string(original), string(content), path)
			named += "\n" + string(content)
		}
		for path := range has {
			inConfig := strings.Contains(path, "/image-policy/") && service == core || strings.Contains(path, "/webhooks/")
			assert.True(t, inConfig || strings.Contains(named, path), "%s sees %s, which nothing names", file, path)
			for private, owner := range onlyFor {
				assert.False(t, strings.HasSuffix(path, private) && owner != service, "%s sees %s", file, path)
			}
		}
		for private, owner := range onlyFor {
			assert.Equal(t, owner == service, slices.ContainsFunc(slices.Collect(maps.Keys(has)), func(path string) bool { return strings.HasSuffix(path, private) }),
				"%s and %s", file, private)
		}
		for _, argument := range pod.Spec.Containers[0].Command[1:] {
			_, path, _ := strings.Cut(argument, "=")
			if _, err := os.Stat(path); err == nil && filepath.IsAbs(path) {
				assert.Contains(t, has, path, "%s has %s", file, argument)
			}
		}
		for _, beside := range []string{"/webhooks/kubeconfig", "/webhooks/b.token", "/webhooks/static/hooks.yaml"} {
			assert.Contains(t, has, dir+beside, "%s reads it, because a file that a flag names does", file)
		}
	}
}

func TestEachReplicaWritesADirectoryOfItsOwn(t *testing.T) {
	pods, err := staticPods(t, kubeadmManifest(t, "--audit-log-path=/var/log/audit.log"), map[string]int{"core": 2})
	require.NoError(t, err)
	hosts := sets.New[string]()
	for _, pod := range pods {
		for i, mount := range pod.Spec.Containers[0].VolumeMounts {
			if mount.ReadOnly {
				continue
			}
			host := pod.Spec.Volumes[i].HostPath.Path
			assert.Equal(t, "/var/log", mount.MountPath)
			assert.Equal(t, "logs/"+pod.Name, strings.Join(strings.Split(host, "/")[strings.Count(host, "/")-1:], "/"))
			assert.DirExists(t, host)
			hosts.Insert(host)
		}
	}
	assert.Len(t, hosts, 4)
}

func TestRenewedFilesReachTheServices(t *testing.T) {
	dir := files(t, map[string]string{"kubelet.key": "old", "kubelet.crt": "c", "more/oidc.crt": "o"})
	kubelet := []string{"--kubelet-client-certificate=" + dir + "/kubelet.crt", "--kubelet-client-key=" + dir + "/kubelet.key"}
	p := StaticPods{
		Manifest: kubeadmManifest(t, append(kubelet, "--audit-policy-file="+files(t, map[string]string{"p": "kind: Policy"})+"/p")...),
		CertDir:  filepath.Join(t.TempDir(), "tripod"),
	}
	first, err := makePods(t, p)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/kubelet.key", []byte("new"), 0o600))
	second, err := makePods(t, p)
	require.NoError(t, err)
	assert.Equal(t, first.Manifests, second.Manifests, "the kubelet restarts nothing")
	copied := filepath.Join(p.CertDir, "core", dir, "kubelet.key")
	content, err := os.ReadFile(copied)
	require.NoError(t, err)
	assert.Equal(t, "new", string(content))
	entries, err := os.ReadDir(filepath.Dir(copied))
	require.NoError(t, err)
	assert.Len(t, entries, 2, "no temporary files")

	without := strings.NewReplacer(kubelet[0]+"\n", "--profiling=false\n", kubelet[1]+"\n", "--profiling=false\n")
	p.Manifest = []byte(without.Replace(string(p.Manifest)))
	third, err := makePods(t, p)
	require.NoError(t, err)
	assert.FileExists(t, copied, "a replica may still read it")
	require.NoError(t, third.RemoveOthers())
	assert.NoFileExists(t, copied)
	assert.NoDirExists(t, filepath.Dir(copied))
	assert.FileExists(t, filepath.Join(p.CertDir, "core", p.CertDir, "core.key"))
	assert.FileExists(t, filepath.Join(p.CertDir, "service-ca.key"), "the authority stays on the host")
}

func TestFilesThatNoStaticPodCanHave(t *testing.T) {
	dir := files(t, map[string]string{"policy.yaml": "kind: Policy", "missing.yaml": "plugins: [{name: ImagePolicyWebhook, path: none}]"})
	policy := "--audit-policy-file=" + dir + "/policy.yaml"
	logs := regexp.MustCompile(`path: [^}]*/logs}`)
	for want, manifest := range map[string]string{
		"no volume of the manifest has /srv": string(kubeadmManifest(t, "--audit-log-path=/srv/audit.log")),
		"is not absolute":                    string(kubeadmManifest(t, "--audit-log-path=audit.log")),
		"its image needs":                    string(kubeadmManifest(t, "--audit-policy-file=/etc/hostname")),
		"no such file or directory":          string(kubeadmManifest(t, "--admission-control-config-file="+dir+"/missing.yaml")),
		"use one path for both":              strings.ReplaceAll(string(kubeadmManifest(t, policy)), "/var/log", dir),
		"files to read and files to write": logs.ReplaceAllString(
			strings.ReplaceAll(string(kubeadmManifest(t, policy, "--audit-log-path="+dir+"/log")), "/var/log", dir), "path: "+dir+"}"),
	} {
		t.Run(want, func(t *testing.T) {
			_, err := staticPods(t, []byte(manifest), nil)
			assert.ErrorContains(t, err, want)
		})
	}
}

func TestUsersOfStaticPods(t *testing.T) {
	ownSocket, err := net.Listen("unix", filepath.Join(t.TempDir(), "kms.sock"))
	require.NoError(t, err)
	defer ownSocket.Close()
	kms := files(t, map[string]string{"encryption.yaml": "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n" +
		"- {resources: [secrets], providers: [{kms: {apiVersion: v2, name: k, endpoint: 'unix://" + ownSocket.Addr().String() + "'}}]}"})
	root := corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	running := func(user string) []byte {
		return []byte("spec: {securityContext: {runAsUser: " + user + "}, containers: [{command: [a, --shared-bind-address=0.0.0.0:6443]}]}")
	}
	for name, test := range map[string]struct {
		pods         StaticPods
		flags        []string
		want         map[string]int64
		capabilities []corev1.Capability
		notes        int
	}{
		"of their own": {want: map[string]int64{"kube-apiserver": 65521, "tripod-core": 65522, "tripod-extensions": 65523}},
		"as given": {
			pods: StaticPods{Users: map[string]int{"core": 71234, "extensions": 0}},
			want: map[string]int64{"kube-apiserver": 65521, "tripod-core": 71234, "tripod-extensions": 0},
		},
		"a low port": {
			flags: []string{"--secure-port=1"}, want: map[string]int64{"kube-apiserver": 0, "tripod-core": 65522},
			capabilities: []corev1.Capability{"NET_BIND_SERVICE"}, notes: 1,
		},
		"a socket": {
			flags: []string{"--encryption-provider-config=" + kms + "/encryption.yaml"}, want: map[string]int64{"kube-apiserver": 0, "tripod-core": 0},
			capabilities: []corev1.Capability{"DAC_OVERRIDE"}, notes: 3,
		},
		"a port of others": {
			pods: StaticPods{Replicas: map[string]int{"aggregator": 2}, Running: running("0")},
			want: map[string]int64{"kube-apiserver": 0, "tripod-aggregator-2": 0, "tripod-core": 65522}, notes: 1,
		},
		"a port of its own user": {
			pods: StaticPods{Replicas: map[string]int{"aggregator": 2}, Running: running("65521")},
			want: map[string]int64{"kube-apiserver": 65521, "tripod-aggregator-2": 65521},
		},
	} {
		t.Run(name, func(t *testing.T) {
			owners := map[string]int{}
			p := test.pods
			p.Manifest, p.CertDir = kubeadmManifest(t, test.flags...), filepath.Join(t.TempDir(), "tripod")
			p.chown = func(path string, _, group int) error {
				owners[path] = group
				return nil
			}
			_, err := makePods(t, p)
			require.NoError(t, err)
			made, err := makePods(t, p) // owns the files under their final names
			require.NoError(t, err)
			assert.Len(t, made.Notes, test.notes+2, "no flag names a file in two of the volumes: %q", made.Notes)
			pods := parsed(t, made)
			for name, user := range test.want {
				spec := pods[name+".yaml"].Spec
				assert.Equal(t, user, *spec.SecurityContext.RunAsUser, name)
				assert.Equal(t, user, *spec.SecurityContext.RunAsGroup, name)
				assert.Equal(t, user != 0, *spec.SecurityContext.RunAsNonRoot)
				assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
				own := spec.Containers[0].SecurityContext
				assert.False(t, *own.AllowPrivilegeEscalation)
				assert.True(t, *own.ReadOnlyRootFilesystem)
				capabilities := root
				if name == "kube-apiserver" {
					capabilities.Add = test.capabilities
				}
				if name == "kube-apiserver" || user != 0 {
					assert.Equal(t, capabilities, *own.Capabilities, name)
				}
				service := strings.TrimPrefix(spec.Containers[0].Command[0], "tripod-")
				key := filepath.Join(p.CertDir, service, p.CertDir, service+".key")
				info, err := os.Stat(key)
				require.NoError(t, err)
				assert.Equal(t, copyMode, info.Mode().Perm())
				assert.Equal(t, int(user), owners[key])
			}
		})
	}
	for want, users := range map[string]map[string]int{
		`"etcd" is none of core`:     {"etcd": 1},
		"have the ID 70001":          {"core": 70001, "extensions": 70001},
		"core has the ID -1":         {"core": -1},
		"the ID 1 of core is that o": {"core": 1}, // bin or daemon
	} {
		_, err := podsOf(t, StaticPods{Manifest: kubeadmManifest(t), CertDir: filepath.Join(t.TempDir(), "tripod"), Users: users})
		assert.ErrorContains(t, err, want)
	}
}
