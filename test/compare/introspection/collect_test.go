// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package introspection

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/admin/collect"
	"github.com/tripod-k8s/tripod/test/framework"
)

// collected runs `tripod debug collect`, and returns its summary and the files of the archive.
func collected(t *testing.T, file string, args ...string) (*collect.Summary, map[string]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), environment.Binary("tripod"), append([]string{"debug", "collect", "-o", "json", file}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var summary collect.Summary
	require.NoError(t, json.Unmarshal(out, &summary), string(out))
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode())
	return &summary, unpacked(t, file)
}

func gunzip(t *testing.T, r io.Reader) []byte {
	t.Helper()
	compressed, err := gzip.NewReader(r)
	require.NoError(t, err)
	data, err := io.ReadAll(compressed)
	require.NoError(t, err)
	return data
}

// unpacked returns the files of an archive. Profiles are unpacked, too.
func unpacked(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	found := map[string]string{}
	for archive := tar.NewReader(bytes.NewReader(gunzip(t, bytes.NewReader(data)))); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		if strings.HasSuffix(header.Name, ".pprof") {
			content = gunzip(t, bytes.NewReader(content))
		}
		found[strings.TrimPrefix(header.Name, "tripod-debug/")] = string(content)
	}
}

// secretsOf returns what the archive of an instance must not have, in each form in which a text could have it.
func secretsOf(t *testing.T, client kubernetes.Interface, cluster *framework.Cluster) (secrets []string) {
	t.Helper()
	add := func(value []byte) {
		if text := strings.TrimSpace(string(value)); len(text) >= 6 {
			secrets = append(secrets, text, base64.StdEncoding.EncodeToString(value))
		}
	}
	keys := 0
	require.NoError(t, filepath.WalkDir(cluster.PKI, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".key") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		block, _ := pem.Decode(data)
		require.NotNil(t, block, path)
		keys++
		secrets = append(secrets, base64.StdEncoding.EncodeToString(block.Bytes), base64.StdEncoding.EncodeToString(data))
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); len(line) >= 16 && !strings.Contains(line, "-----") {
				secrets = append(secrets, line)
			}
		}
		return nil
	}))
	assert.Greater(t, keys, 5)
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	require.NoError(t, err)
	for _, user := range config.AuthInfos {
		add(user.ClientKeyData)
		add([]byte(user.Token))
	}
	all, err := client.CoreV1().Secrets(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, secret := range all.Items {
		for key, value := range secret.Data {
			if key != "namespace" && key != "ca.crt" { // which are public
				add(value)
			}
		}
	}
	return secrets
}

// plant creates Secrets and tokens, and returns the token of a ServiceAccount.
func plant(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	for _, secret := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Name: "database"}, StringData: map[string]string{"password": "correct horse battery", "user": "shopkeeper"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "file"}, StringData: map[string]string{"config": "url: https://db\nkey: 0123456789abcdefghijXYZ\n"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "account", Annotations: map[string]string{corev1.ServiceAccountNameKey: "collected"}}, Type: corev1.SecretTypeServiceAccountToken},
	} {
		_, err := client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	_, err := client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "collected"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "collected", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}

// TestTheArchiveOfAnInstanceHasNoSecrets lets a log of an instance have all of its secrets.
func TestTheArchiveOfAnInstanceHasNoSecrets(t *testing.T) {
	tripod, err := environment.StartTripod(t.Context(), framework.TripodOptions{Args: []string{"--core-replicas=2"}})
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(tripod.Admin())
	require.NoError(t, err)
	token := plant(t, client)
	withToken := tripod.Anonymous()
	withToken.BearerToken = token
	asAccount, err := kubernetes.NewForConfig(withToken)
	require.NoError(t, err)
	_, err = asAccount.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	require.Error(t, err)
	secrets := append(secretsOf(t, client, tripod.Cluster), token)
	require.Contains(t, secrets, "correct horse battery")
	planted := "it says: " + strings.Join(secrets, "\nit says: ") + "\nand that is all\n"
	require.NoError(t, os.WriteFile(filepath.Join(tripod.DataDir, "logs", "planted.log"), []byte(planted), 0o600))

	dir := t.TempDir()
	summary, files := collected(t, filepath.Join(dir, "a.tar.gz"), "--data-dir="+tripod.DataDir)
	assert.Empty(t, summary.Problems)
	assert.Greater(t, summary.Redacted, len(secrets)/2)
	folders := map[string]int{}
	for name, content := range files {
		for _, secret := range secrets {
			assert.False(t, strings.Contains(content, secret), "%s has the secret %q", name, secret)
		}
		if parts := strings.Split(name, "/"); len(parts) == 3 {
			service, _, _ := strings.Cut(parts[1], "-")
			folders[service+"/"+parts[2]]++
		}
	}
	for _, file := range []string{"metrics.txt", "statusz.txt", "flagz.txt", "goroutines.txt", "heap.pprof"} {
		assert.Equal(t, 1, folders["aggregator/"+file], file)
		assert.Equal(t, 2, folders["core/"+file], file)
		assert.Equal(t, 1, folders["extensions/"+file], file)
	}
	for name, want := range map[string]string{
		"tripod.json": `"version"`, "instance.json": tripod.URL, "processes.json": "core-1", "certificates.json": "apiserver", "api/version.json": "gitVersion",
		"api/readyz.txt": "core-available", "api/livez.txt": "ok", "api/apiservices.json": "v1.apps", "logs/core-0.log": "", "logs/planted.log": "and that is all", "summary.json": "logs/core-1.log",
	} {
		content, ok := files[name]
		assert.True(t, ok, name)
		assert.Contains(t, content, want, name)
	}
	assert.True(t, slices.ContainsFunc(summary.Entries, func(e collect.Entry) bool { return e.Name == "logs/core-0.log" && e.Bytes > 0 && !e.Truncated }))

	bounded, files := collected(t, filepath.Join(dir, "small.tar.gz"), "--data-dir="+tripod.DataDir, "--max-mib=1")
	total := 0
	for name, content := range files {
		if name != "summary.json" && !strings.HasSuffix(name, ".pprof") {
			total += len(content)
		}
	}
	assert.LessOrEqual(t, total, 1<<20)
	assert.Contains(t, strings.Join(bounded.Problems, "\n"), "is left out: the archive would have more than 1 MiB")

	require.NoError(t, tripod.Process.Stop())
	stopped, files := collected(t, filepath.Join(dir, "stopped.tar.gz"), "--data-dir="+tripod.DataDir)
	assert.Contains(t, files, "logs/core-0.log")
	assert.NotContains(t, files, "api/version.json")
	assert.Contains(t, strings.Join(stopped.Problems, "\n"), "connection refused")
}

func TestWhatCannotBeCollectedIsOneLine(t *testing.T) {
	dir := t.TempDir()
	existing := filepath.Join(dir, "a.tar.gz")
	require.NoError(t, os.WriteFile(existing, []byte("mine"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "none"), 0o700))
	for want, args := range map[string][]string{
		"no instance":               {"--data-dir=" + filepath.Join(dir, "none")},
		"found no cluster":          {"--release=tripod", "--kubeconfig=/dev/null"},
		"no static pods of Tripod":  {"--static-pods", "--manifests=" + dir},
		"must be positive":          {"--max-mib=0"},
		"[release static-pods]":     {"--release=tripod", "--static-pods"},
		"must be text or json, not": {"-o", "yaml"},
	} {
		cmd := exec.CommandContext(t.Context(), environment.Binary("tripod"), append([]string{"debug", "collect", filepath.Join(dir, "b.tar.gz")}, args...)...)
		output, err := cmd.CombinedOutput()
		assert.Error(t, err, want)
		assert.Contains(t, string(output), want)
		assert.Len(t, strings.Split(strings.TrimSpace(string(output)), "\n"), 1, "%s", output)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "nothing is left")
}
