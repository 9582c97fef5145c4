// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/admin/collect"
	"github.com/tripod-k8s/tripod/test/framework"
)

// helmKeeps stores a revision of the release, as Helm does.
func (i *installed) helmKeeps(version int, values string) {
	i.t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	_, err := compressed.Write([]byte(`{"name": "prod", "version": ` + strconv.Itoa(version) + `, "info": {"status": "deployed"}, "config": ` + values + `}`))
	require.NoError(i.t, err)
	require.NoError(i.t, compressed.Close())
	_, err = i.client.CoreV1().Secrets(i.namespace).Create(i.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "sh.helm.release.v1.prod.v" + strconv.Itoa(version), Labels: map[string]string{
			"owner": "helm", "name": releaseName, "version": strconv.Itoa(version)}},
		Type: "helm.sh/release.v1", Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(packed.Bytes()))},
	}, metav1.CreateOptions{})
	require.NoError(i.t, err)
}

// collect runs `tripod debug collect --release`, and returns its summary and the files of the archive.
func (i *installed) collect() (*collect.Summary, map[string]string) {
	i.t.Helper()
	file := filepath.Join(i.t.TempDir(), "a.tar.gz")
	cmd := exec.CommandContext(i.t.Context(), environment.Binary("tripod"), "debug", "collect", file, "-o", "json",
		"--release="+releaseName, "--namespace="+i.namespace, "--kubeconfig="+i.cluster.Kubeconfig)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(i.t, err, stderr.String())
	var summary collect.Summary
	require.NoError(i.t, json.Unmarshal(out, &summary))
	data, err := os.Open(file)
	require.NoError(i.t, err)
	defer data.Close()
	compressed, err := gzip.NewReader(data)
	require.NoError(i.t, err)
	files := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return &summary, files
		}
		require.NoError(i.t, err)
		content, err := io.ReadAll(archive)
		require.NoError(i.t, err)
		files[strings.TrimPrefix(header.Name, "tripod-debug/")] = string(content)
	}
}

// TestTheArchiveOfAReleaseHasNoSecrets lets the log of a pod have a Secret of the namespace, one of the release's API, and the key of its administrator.
func TestTheArchiveOfAReleaseHasNoSecrets(t *testing.T) {
	t.Parallel()
	cluster := clusters[1]
	release := install(t, cluster)
	release.secret()
	release.helmKeeps(1, `{"core": {"replicas": 1}}`)
	release.helmKeeps(10, `{"core": {"replicas": 3, "env": [{"name": "PROXY", "value": "http://jane:hunter22@proxy"}]}, "encryption": {"config": {"secret": "c2VjcmV0"}}}`)
	secrets := []string{"correct horse battery", "hunter22", "c2VjcmV0"}
	for namespace, value := range map[string]string{release.namespace: "correct horse battery", framework.CreateNamespace(t, cluster): "tr0ub4dor&3"} {
		secrets = append(secrets, value)
		_, err := release.client.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "database"}, StringData: map[string]string{"password": value}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	key, err := os.ReadFile(filepath.Join(cluster.PKI, "admin.key"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(key)), "\n")
	secrets = append(secrets, lines[1:len(lines)-1]...)

	at, err := url.Parse(cluster.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(at.Port())
	require.NoError(t, err)
	kubelet := release.aggregator("aggregator-1", port)
	pod, err := release.client.CoreV1().Pods(release.namespace).Get(t.Context(), "aggregator-1", metav1.GetOptions{})
	require.NoError(t, err)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "aggregator", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	_, err = release.client.CoreV1().Pods(release.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	go func() {
		defer close(kubelet.LogLines)
		for _, secret := range secrets {
			select {
			case kubelet.LogLines <- "it says password=" + secret + " or " + secret:
			case <-t.Context().Done():
				return
			}
		}
	}()

	summary, files := release.collect()
	assert.Empty(t, summary.Problems)
	for name, content := range files {
		for _, secret := range secrets {
			if secret == "hunter22" || secret == "c2VjcmV0" {
				if strings.HasPrefix(name, "logs/") {
					continue // of these, only the values know
				}
			}
			assert.False(t, strings.Contains(content, secret), "%s has the secret %q", name, secret)
		}
	}
	assert.Equal(t, len(secrets), strings.Count(files["logs/aggregator-1-aggregator.log"], "it says password=REDACTED or "))
	for name, want := range map[string]string{
		"release/helm.json": `"replicas": 3`, "release/pods.json": `"aggregator-1"`, "release/workloads.json": "prod-tripod-aggregator", "release/events.json": "[",
		"api/version.json": "gitVersion", "api/aggregator/metrics.txt": "apiserver_request_total", "api/readyz.txt": "core-available",
	} {
		assert.Contains(t, files[name], want, name)
	}
	assert.Contains(t, files["release/helm.json"], `"version": 10`)
}
