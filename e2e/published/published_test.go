// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// version is that of the release which `make e2e-registry` builds.
const version = "v0.0.0-registry"

func TestAPublishedReleaseIsInstalledAndATamperedOneIsNot(t *testing.T) {
	keys := publish(t)
	t.Run("the script verifies the signature", func(t *testing.T) { script(t, keys) })
	t.Run("cosign verifies images and chart", func(t *testing.T) { verify(t, keys) })
	require.True(t, t.Run("helm installs from the registry", install))
	t.Run("a tag that names another image", func(t *testing.T) { moveTag(t, keys) })
	t.Run("a mirror that changes layers", lie)
}

// publish signs the release with a new key and publishes it. It returns the directory of the keys.
func publish(t *testing.T) string {
	t.Helper()
	dist := filepath.Join(root(t), "bin", "e2e", "dist")
	require.FileExists(t, filepath.Join(dist, "checksums.txt"), "make e2e-registry builds the release")
	keys := newKeys(t)
	key := filepath.Join(keys, "cosign.key")
	progress.Require(t, "sign the release", func() error {
		_, err := run(t.Context(), goProgram(t), "run", "-C", "tools/sign", ".", "-key", key, dist)
		return err
	})
	progress.Require(t, "publish it at "+registry, func() error {
		_, err := run(t.Context(), goProgram(t), "run", "-C", "tools/sign", "./publish", "-registry", registry, "-key", key, dist)
		return err
	})
	return keys
}

func root(t *testing.T) string {
	t.Helper()
	path, err := framework.RepositoryRoot()
	require.NoError(t, err)
	return path
}

// newKeys returns a directory with a new cosign.key and cosign.pub.
func newKeys(t *testing.T) string {
	t.Helper()
	keys := t.TempDir()
	_, err := run(t.Context(), "cosign", "generate-key-pair", "--output-key-prefix", filepath.Join(keys, "cosign"))
	require.NoError(t, err)
	return keys
}

// script runs install.sh of the release, with cosign, against a server of its files.
func script(t *testing.T, keys string) {
	dist := filepath.Join(root(t), "bin", "e2e", "dist")
	server := httptest.NewServer(http.FileServer(http.Dir(dist)))
	t.Cleanup(server.Close)
	install := func(key string) (installed []os.DirEntry, output string) {
		dir := t.TempDir()
		command := exec.CommandContext(t.Context(), "sh", filepath.Join(dist, "install.sh"), "--dir", dir)
		command.Env = append(os.Environ(), "PATH="+filepath.Join(root(t), "bin", "tools")+":/usr/bin:/bin", "TRIPOD_DOWNLOAD="+server.URL, "HOME="+env.Dir)
		if key != "" {
			command.Env = append(command.Env, "TRIPOD_KEY="+key)
		}
		printed, err := command.CombinedOutput()
		installed, errOfDir := os.ReadDir(dir)
		require.NoError(t, errOfDir)
		assert.Equal(t, err == nil, len(installed) > 0, "%s", printed)
		return installed, string(printed)
	}
	installed, output := install(filepath.Join(keys, "cosign.pub"))
	assert.NotEmpty(t, installed, output)
	assert.Contains(t, output, "verified the signature of the release")
	installed, output = install(filepath.Join(newKeys(t), "cosign.pub"))
	assert.Empty(t, installed, output)
	assert.Contains(t, output, "nothing was installed")
}

func goProgram(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	require.NoError(t, err)
	return path
}

// cosign runs cosign with the public key of the release.
func cosign(ctx context.Context, keys string, args ...string) (string, error) {
	// The signature is in no public log.
	return run(ctx, "cosign", append(args, "--key", filepath.Join(keys, "cosign.pub"), "--insecure-ignore-tlog=true")...)
}

func verify(t *testing.T, keys string) {
	other := newKeys(t)
	for _, reference := range []string{
		registry + "/tripod:" + version, registry + "/tripod-core:" + version, registry + "/charts/tripod:" + strings.TrimPrefix(version, "v"),
	} {
		_, err := cosign(t.Context(), keys, "verify", reference)
		assert.NoError(t, err, reference)
		_, err = cosign(t.Context(), keys, "verify-attestation", "--type", "slsaprovenance1", reference)
		assert.NoError(t, err, reference)
		_, err = cosign(t.Context(), other, "verify", reference)
		assert.Error(t, err, "the key of another signed %s", reference)
	}
	platform, err := run(t.Context(), "crane", "digest", "--platform", "linux/"+architecture(t), registry+"/tripod-core:"+version)
	require.NoError(t, err)
	components, err := cosign(t.Context(), keys, "verify-attestation", "--type", "cyclonedx", registry+"/tripod-core@"+strings.TrimSpace(platform))
	assert.NoError(t, err)
	assert.Contains(t, components, "payload")
}

func architecture(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOARCH").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// install installs the chart without naming an image: its own values do.
func install(t *testing.T) {
	values, err := env.Values(t.Context(), environment.NodePort)
	require.NoError(t, err)
	delete(values, "image")
	require.NoError(t, env.Volume(t.Context(), "tripod"))
	progress.Require(t, "helm installs oci://"+registry+"/charts/tripod", func() error { return helm(t, values) })
	_, err = tripod.Connect(t.Context())
	require.NoError(t, err)
	require.NoError(t, tripod.AwaitReachable(t.Context()))
	for _, service := range release.Services {
		pods, err := tripod.Pods(t.Context(), service)
		require.NoError(t, err)
		require.NotEmpty(t, pods)
		for _, pod := range pods {
			assert.Contains(t, pod.Spec.Containers[0].Image, registry+"/tripod-"+service+":"+version+"@sha256:")
		}
	}
}

// helm installs or upgrades the release from the registry. It waits if there are values, which are all that the release needs.
func helm(t *testing.T, values release.Values, args ...string) error {
	t.Helper()
	args = append([]string{
		"upgrade", "--install", tripod.Name, "oci://" + registry + "/charts/tripod", "--version", strings.TrimPrefix(version, "v"), "--plain-http",
		"--create-namespace", "--timeout=5m",
	}, args...)
	if values != nil {
		data, err := yaml.Marshal(values)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "values.yaml")
		require.NoError(t, os.WriteFile(file, data, 0o600))
		args = append(args, "--values", file, "--wait", "--wait-for-jobs")
	}
	_, err := tripod.Helm(t.Context(), args...)
	return err
}

// moveTag has the tag of core name another image. Nodes run the one with the digest, and cosign refuses the tag.
func moveTag(t *testing.T, keys string) {
	tag := registry + "/tripod-core:" + version
	original, err := run(t.Context(), "crane", "digest", tag)
	require.NoError(t, err)
	_, err = run(t.Context(), "crane", "copy", registry+"/tripod-extensions:"+version, tag)
	require.NoError(t, err)
	moved, err := run(t.Context(), "crane", "digest", tag)
	require.NoError(t, err)
	require.NotEqual(t, original, moved)
	// extensions is signed, but another image is not: one of the attacker's own.
	_, err = run(t.Context(), "crane", "mutate", "--label", "attacker=yes", "--tag", tag, registry+"/tripod-core@"+platformOf(t, original))
	require.NoError(t, err)
	_, err = cosign(t.Context(), keys, "verify", tag)
	assert.Error(t, err, "cosign verifies the image of an attacker")
	_, err = cosign(t.Context(), keys, "verify", registry+"/tripod-core@"+strings.TrimSpace(original))
	assert.NoError(t, err, "the original by its digest")

	old, err := tripod.Pods(t.Context(), "core")
	require.NoError(t, err)
	for _, pod := range old {
		require.NoError(t, env.Cluster.Client.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	}
	require.NoError(t, framework.Poll(t.Context(), "a new pod of core runs the image with the digest", func(ctx context.Context) error {
		return runsDigest(ctx, old, strings.TrimSpace(original))
	}))
}

// runsDigest returns nil if core has one pod, which is none of the old ones, is ready, and runs the image with a digest.
func runsDigest(ctx context.Context, old []corev1.Pod, digest string) error {
	pods, err := tripod.AllPods(ctx, "core")
	if err != nil {
		return err
	}
	if len(pods) != 1 || slices.ContainsFunc(old, func(p corev1.Pod) bool { return p.UID == pods[0].UID }) {
		return fmt.Errorf("%d pods, and not only a new one", len(pods))
	}
	statuses := pods[0].Status.ContainerStatuses
	if len(statuses) != 1 || !statuses[0].Ready || !strings.Contains(statuses[0].ImageID, digest) {
		return fmt.Errorf("the containers of %s are %v, want a ready one with %s", pods[0].Name, statuses, digest)
	}
	return nil
}

// platformOf returns the digest of this machine's image in an index of tripod-core.
func platformOf(t *testing.T, index string) string {
	t.Helper()
	digest, err := run(t.Context(), "crane", "digest", "--platform", "linux/"+architecture(t), registry+"/tripod-core@"+strings.TrimSpace(index))
	require.NoError(t, err)
	return strings.TrimSpace(digest)
}

// lie has the node pull the image of search from a mirror that changes layers. The node must not run it. From the registry itself, it does.
func lie(t *testing.T) {
	program := filepath.Join(t.TempDir(), "mirror")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./mirror")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	real := "127.0.0.1:30081"
	require.NoError(t, startInNode(t.Context(), "mirror", program, "-listen", lyingMirror, "-registry", "http://"+real))
	require.NoError(t, mirrorAt(t.Context(), lyingMirror))
	t.Cleanup(func() { assert.NoError(t, mirrorAt(context.WithoutCancel(t.Context()), real)) })

	refused, err := env.Cluster.Client.CoreV1().Events(tripod.Namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "reason=Failed"})
	require.NoError(t, err)
	defer refused.Stop()
	require.NoError(t, env.Volume(t.Context(), "tripod-search"))
	require.NoError(t, helm(t, nil, "--reset-then-reuse-values",
		"--set=search.enabled=true,search.database.size=1Gi,search.database.storageClassName="+environment.VolumeClass))
	timeout := time.After(5 * time.Minute)
	for found := false; !found; {
		select {
		case event := <-refused.ResultChan():
			e, ok := event.Object.(*corev1.Event)
			require.True(t, ok, "%v", event)
			found = strings.Contains(e.Message, "tripod-search") && strings.Contains(e.Message, "unexpected commit digest")
		case <-timeout:
			t.Fatal("the node does not say that it refuses the image")
		}
	}
	require.NoError(t, mirrorAt(t.Context(), real))
	progress.Require(t, "the node pulls search from the registry itself", func() error { return tripod.Settled(t.Context(), "search") })
}
