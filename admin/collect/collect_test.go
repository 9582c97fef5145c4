// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIAbcdefghijkl0123456789abcdefghijkl0123456789ABCDEFGHIJKL\n-----END EC PRIVATE KEY-----\n"

func TestSecretsThatShowByTheirFormAreReplaced(t *testing.T) {
	for text, want := range map[string]string{
		"key: " + key + "after": "key: REDACTED\nafter",
		"cut off: " + key[:60]:  "cut off: REDACTED",
		"data: " + base64.StdEncoding.EncodeToString([]byte(key)) + "\nafter":                      "data: REDACTED\nafter",
		"token eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl used":                 "token REDACTED used",
		`Authorization: Bearer abcdef0123456789.`:                                                  "Authorization: Bearer REDACTED",
		`"Authorization": "Basic YWRtaW46YWRtaW4="`:                                                `"Authorization": "Basic REDACTED"`,
		"join with abcdef.0123456789abcdef please":                                                 "join with REDACTED please",
		"postgres://search:s3cret@db.example.com/search":                                           "postgres://REDACTED@db.example.com/search",
		`--oidc-client-secret=abcdefgh --v=2`:                                                      `--oidc-client-secret=REDACTED --v=2`,
		`{"password":"hunter22","user":"jane"}`:                                                    `{"password":"REDACTED","user":"jane"}`,
		`apiserver_request_total{resource="secrets",verb="LIST"} 7`:                                `apiserver_request_total{resource="secrets",verb="LIST"} 7`,
		"secrets is forbidden: User \"jane\" cannot list resource; basic information about tokens": "secrets is forbidden: User \"jane\" cannot list resource; basic information about tokens",
	} {
		var s Scrubber
		assert.Equal(t, want, string(s.Scrub([]byte(text))))
		assert.Equal(t, strings.Count(want, redacted), s.Redacted, text)
	}
}

func TestKnownSecretsAreReplaced(t *testing.T) {
	var s Scrubber
	for _, secret := range []string{"correct horse", "correct horse battery", "short", "user: jane\npart: 0123456789abcdefXYZ\nserver: https://127.0.0.1:6443\n"} {
		s.Know([]byte(secret))
	}
	encoded := base64.StdEncoding.EncodeToString([]byte("correct horse"))
	text := "a correct horse battery, a correct horse, a short, " + encoded + ", 0123456789abcdefXYZ, https://127.0.0.1:6443, jane"
	assert.Equal(t, "a REDACTED, a REDACTED, a short, REDACTED, REDACTED, https://127.0.0.1:6443, jane", string(s.Scrub([]byte(text))))
	assert.Equal(t, 4, s.Redacted)
	s.Know([]byte("another one"))
	assert.Equal(t, "REDACTED", string(s.Scrub([]byte("another one"))))
}

func TestValuesThatMayBeSecretsAreReplaced(t *testing.T) {
	var values any
	require.NoError(t, json.Unmarshal([]byte(`{
		"core": {"replicas": 3, "env": [{"name": "A", "value": "b"}], "extraArgs": ["--oidc-client-secret=abc", "--v=4", "--tls-private-key-file=/etc/a.key"]},
		"encryption": {"config": {"resources": [{"providers": [{"aescbc": {"keys": [{"name": "one", "secret": "c2VjcmV0"}]}}]}]}},
		"etcd": {"external": {"servers": ["https://one:2379"], "secret": "one"}}, "image": {"tag": "v1", "digests": {"tripod": "sha256:0123456789abcdef0123"}},
		"join": {"podNetwork": "kind: Secret\n"}, "note": "0123456789abcdefghij", "database": {"password": "x", "enabled": true}}`), &values))
	data, err := json.Marshal(RedactValues(values))
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"core": {"replicas": 3, "env": [{"name": "A", "value": "REDACTED"}], "extraArgs": ["--oidc-client-secret=REDACTED", "--v=4", "--tls-private-key-file=/etc/a.key"]},
		"encryption": {"config": {"resources": [{"providers": [{"aescbc": {"keys": [{"name": "one", "secret": "REDACTED"}]}}]}]}},
		"etcd": {"external": {"servers": ["https://one:2379"], "secret": "REDACTED"}}, "image": {"tag": "v1", "digests": {"tripod": "sha256:0123456789abcdef0123"}},
		"join": {"podNetwork": "REDACTED"}, "note": "REDACTED", "database": {"password": "REDACTED", "enabled": true}}`, string(data))
}

// source adds what a test gives it.
type source struct {
	secrets string
	add     func(ctx context.Context, a *Archive)
}

func (s source) Secrets(_ context.Context, a *Archive)   { a.Scrubber.Know([]byte(s.secrets)) }
func (s source) Collect(ctx context.Context, a *Archive) { s.add(ctx, a) }

func never() bool { return false }

func options(t *testing.T) Options {
	t.Helper()
	return Options{File: filepath.Join(t.TempDir(), "a.tar.gz"), MaxBytes: 1 << 20, MaxLogBytes: 100, Progress: func(string) {}}
}

// read returns the files of an archive.
func read(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	require.NoError(t, err)
	found := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		assert.EqualValues(t, 0o600, header.Mode)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		found[strings.TrimPrefix(header.Name, "tripod-debug/")] = string(content)
	}
}

func TestAnArchiveIsBoundedAndScrubbed(t *testing.T) {
	o := options(t)
	summary, err := Collect(t.Context(), o, never,
		source{"", func(_ context.Context, a *Archive) {
			a.Text("a.txt", []byte("the secret is 'correct horse'"), false)
			a.JSON("b.json", map[string]string{"is": "correct horse"})
			a.Binary("large", make([]byte, 1<<20))
			a.Binary("c", []byte("c"))
			a.Problem("no correct horse")
		}},
		source{"correct horse", func(context.Context, *Archive) {}})
	require.NoError(t, err)
	files := read(t, o.File)
	assert.Equal(t, "the secret is 'REDACTED'", files["a.txt"])
	assert.JSONEq(t, `{"is": "REDACTED"}`, files["b.json"])
	assert.Len(t, files, 4)
	assert.NotContains(t, files["summary.json"], "correct horse")
	assert.Equal(t, []string{"large is left out: the archive would have more than 1 MiB", "no REDACTED"}, summary.Problems)
	assert.Len(t, summary.Entries, 3)
	assert.Equal(t, 3, summary.Redacted)
	info, err := os.Stat(o.File)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode())
	assert.Equal(t, info.Size(), summary.Bytes)

	_, err = Collect(t.Context(), o, never, source{"", func(_ context.Context, a *Archive) { a.Text("a", nil, false) }})
	assert.ErrorContains(t, err, "exists, and is not overwritten")
}

func TestNothingIsLeftIfThereIsNoArchive(t *testing.T) {
	some := source{"", func(_ context.Context, a *Archive) { a.Text("a", nil, false) }}
	for name, test := range map[string]struct {
		cancelled bool
		source    Source
		want      string
	}{
		"stopped":           {true, some, "stopped; no archive is written"},
		"nothing collected": {false, Missing("no cluster"), "nothing could be collected: no cluster"},
	} {
		o := options(t)
		_, err := Collect(t.Context(), o, func() bool { return test.cancelled }, test.source)
		assert.EqualError(t, err, test.want, name)
		entries, err := os.ReadDir(filepath.Dir(o.File))
		require.NoError(t, err)
		assert.Empty(t, entries, name)
	}
	o := options(t)
	o.File = filepath.Join(filepath.Dir(o.File), "none", "a.tar.gz")
	_, err := Collect(t.Context(), o, never, some)
	assert.ErrorContains(t, err, "cannot write an archive")
}

func TestWhatIsCollectedInTimeIsKept(t *testing.T) {
	o := options(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Nanosecond, io.ErrNoProgress)
	defer cancel()
	<-ctx.Done()
	summary, err := Collect(ctx, o, never, source{"", func(_ context.Context, a *Archive) { a.Text("a", nil, false) }})
	require.NoError(t, err)
	assert.Equal(t, []string{"the time was over: " + io.ErrNoProgress.Error()}, summary.Problems)
	assert.Contains(t, read(t, o.File), "a")
}

func TestTheEndOfALogIsRead(t *testing.T) {
	long := strings.Repeat("0123456789\n", 1000)
	for text, want := range map[string]string{"": "", "short\n": "short\n", long: strings.Repeat("0123456789\n", 9)} {
		data, truncated, err := end(strings.NewReader(text), 100)
		require.NoError(t, err)
		assert.Equal(t, want, string(data))
		assert.Equal(t, text == long, truncated)
	}
}

func TestStaticPodsAreRead(t *testing.T) {
	dir := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	pod := func(name, image, flag string) string {
		return "metadata: {name: " + name + ", namespace: kube-system}\nspec: {containers: [{name: main, image: " + image + ", command: [" + flag + "], env: [{name: A, value: hidden}]}]}\n"
	}
	write("manifests/kube-apiserver.yaml", pod("kube-apiserver", "localhost/tripod-k8s/tripod-aggregator:v1", "--webhook-token=abc"))
	write("manifests/tripod-core.yaml", pod("tripod-core", "localhost/tripod-k8s/tripod-core:v1", "--v=2"))
	write("manifests/etcd.yaml", pod("etcd", "etcd:v1", "--v=2"))
	write("logs/kube-system_tripod-core-node-1_12-34/main/0.log", "it says "+key)
	write("logs/kube-system_etcd-node-1_12-34/main/0.log", "not this one")
	write("pki/a.key", key)
	const token = "the-token-of-a-controller"
	write("conf/scheduler.conf", "{kind: Config, apiVersion: v1, users: [{name: a, user: {token: "+token+"}}]}")
	write("logs/kube-system_kube-apiserver-node-1_12-34/main/0.log", "it sends "+token)
	node := Node{
		Manifests: filepath.Join(dir, "manifests"), Logs: filepath.Join(dir, "logs"), PKI: filepath.Join(dir, "pki"),
		Kubeconfig: filepath.Join(dir, "conf", "none.conf"),
	}
	sources, err := node.Sources()
	require.NoError(t, err)
	o := options(t)
	o.MaxLogBytes = 1 << 20
	summary, err := Collect(t.Context(), o, never, sources...)
	require.NoError(t, err)
	require.Len(t, summary.Problems, 1)
	assert.Contains(t, summary.Problems[0], "the API is not asked, because the kubeconfig "+node.Kubeconfig+" cannot be used")
	found := read(t, o.File)
	assert.Len(t, found, 5)
	assert.Equal(t, "it sends REDACTED", found["logs/kube-system_kube-apiserver-node-1_12-34_main_0.log"])
	assert.Equal(t, "it says REDACTED\n", found["logs/kube-system_tripod-core-node-1_12-34_main_0.log"])
	assert.JSONEq(t, `{"Name": "kube-apiserver", "Containers": [{"Name": "main", "Image": "localhost/tripod-k8s/tripod-aggregator:v1", "Command": ["--webhook-token=REDACTED"]}]}`,
		found["config/kube-apiserver.json"])
	assert.Contains(t, found["config/tripod-core.json"], "--v=2")

	node.Manifests = node.Logs
	_, err = node.Sources()
	assert.ErrorContains(t, err, "has no static pods of Tripod: run the command on a control-plane node, as root")
}

func TestRevisionsOfHelmAreRead(t *testing.T) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	_, err := compressed.Write([]byte(`{"name": "tripod", "version": 3, "info": {"status": "deployed"}, "config": {"core": {"replicas": 2}}, "manifest": "kind: Secret"}`))
	require.NoError(t, err)
	require.NoError(t, compressed.Close())
	r, err := decodeRevision([]byte(base64.StdEncoding.EncodeToString(packed.Bytes())))
	require.NoError(t, err)
	assert.Equal(t, 3, r.Version)
	assert.Equal(t, map[string]any{"core": map[string]any{"replicas": 2.0}}, r.Config)
	for _, damaged := range []string{"", "%", base64.StdEncoding.EncodeToString([]byte("not gzip"))} {
		_, err := decodeRevision([]byte(damaged))
		assert.Error(t, err, damaged)
	}
}

func TestReplicasAreFoundInMetrics(t *testing.T) {
	assert.Equal(t, []replica{{"core", "10.0.0.1:6443"}, {"core", "10.0.0.2:6443"}, {"search", "[::1]:6443"}}, replicasIn([]byte(`
tripod_backend_connections{backend="core",endpoint="10.0.0.2:6443",protocol="h2"} 1
tripod_backend_connections{backend="core",endpoint="10.0.0.1:6443",protocol="h2"} 1
tripod_backend_requests_total{backend="search",code="2xx",endpoint="[::1]:6443"} 1
tripod_backend_requests_total{backend="v1.metrics.k8s.io",code="2xx",endpoint="10.0.0.9:443"} 1
tripod_backend_endpoints{backend="core",state="serving"} 2
other{backend="core",endpoint="10.0.0.7:6443"} 1
`)))
}
