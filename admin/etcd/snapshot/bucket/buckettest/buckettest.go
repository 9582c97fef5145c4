// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package buckettest runs a real S3 server, versitygw, for a test, behind a relay that can cut connections.
package buckettest

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/admin/etcd/snapshot/bucket"
	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// program is the server, from the root of the repository.
const program = "bin/tools/versitygw"

// Keys of the user who may do everything, and of one who may use no bucket.
const (
	User         = "administrator"
	Secret       = "a-secret-of-the-administrator"
	StrangerUser = "stranger"
	Stranger     = "a-secret-of-the-stranger"
)

// S3 is a running server.
type S3 struct {
	// Server is what clients need. It leads through the relay.
	Server bucket.Server
	Relay  *Relay
	// Folder has a folder for each bucket, with a file for each object.
	Folder string
}

// Start starts a server with TLS and an empty bucket, and sets the credentials of its administrator.
func Start(t testing.TB, bucketName string) *S3 {
	t.Helper()
	SetCredentials(t, User, Secret)
	dir := t.TempDir()
	store, err := certs.Open(filepath.Join(dir, "pki"))
	require.NoError(t, err)
	ca, err := store.Authority("ca", "s3-ca")
	require.NoError(t, err)
	_, err = ca.Ensure("server", certs.Leaf{CommonName: "s3", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true})
	require.NoError(t, err)
	port, err := replicas.ReservePort()
	require.NoError(t, err)
	address := port.Address()
	s := &S3{Folder: filepath.Join(dir, "objects"), Relay: startRelay(t, address)}
	s.Server = bucket.Server{Endpoint: "https://" + s.Relay.Address, Region: "us-east-1", CAFile: ca.File()}
	for _, folder := range []string{s.Folder, filepath.Join(dir, "metadata"), filepath.Join(dir, "users")} {
		require.NoError(t, os.Mkdir(folder, 0o700))
	}
	port.Release()
	run(t, filepath.Join(dir, "log"), "--port", address, "--cert", store.CertFile("server"), "--key", store.KeyFile("server"), "--health", "/health",
		"--iam-dir", filepath.Join(dir, "users"), "--quiet", "posix", "--sidecar", filepath.Join(dir, "metadata"), s.Folder)
	awaitHealth(t, "https://"+address+"/health", ca)
	administer(t, "https://"+address, "create-user", "--access", StrangerUser, "--secret", Stranger, "--role", "user")
	administer(t, "https://"+address, "create-bucket", "--owner", User, "--bucket", bucketName)
	return s
}

// Incomplete returns the keys of uploads that have not ended.
func (s *S3) Incomplete(t testing.TB, bucketName string) (keys []string) {
	t.Helper()
	transport, err := s.Server.Transport()
	require.NoError(t, err)
	defer transport.CloseIdleConnections()
	client, err := minio.New(s.Relay.Address, &minio.Options{
		Creds: credentials.NewStaticV4(User, Secret, ""), Secure: true, Transport: transport, Region: s.Server.Region,
		BucketLookup: minio.BucketLookupPath,
	})
	require.NoError(t, err)
	for upload := range client.ListIncompleteUploads(t.Context(), bucketName, "", true) {
		require.NoError(t, upload.Err)
		keys = append(keys, upload.Key)
	}
	return keys
}

// SetCredentials sets those of the test, and hides those of the machine.
func SetCredentials(t testing.TB, user, secret string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": user, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"), "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_REGION": "",
		"AWS_ACCESS_KEY": "", "AWS_SECRET_KEY": "", "AWS_CA_BUNDLE": "", "AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
	} {
		t.Setenv(name, value)
	}
}

// run runs the server until the test ends.
func run(t testing.TB, log string, args ...string) {
	t.Helper()
	output, err := os.Create(log)
	require.NoError(t, err)
	cmd := command(context.WithoutCancel(t.Context()), t, args...)
	cmd.Stdout, cmd.Stderr = output, output
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
		output.Close()     //nolint:errcheck // only for people
		if t.Failed() {
			content, _ := os.ReadFile(log)
			t.Logf("log of the S3 server:\n%s", content)
		}
	})
}

// command returns a command of the server. Its credentials are in the environment.
func command(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	path, err := findProgram()
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+User, "ROOT_SECRET_KEY="+Secret, "ADMIN_ACCESS_KEY="+User, "ADMIN_SECRET_KEY="+Secret)
	return cmd
}

// findProgram looks in the folders above for that of the repository.
func findProgram() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		path := filepath.Join(folder, program)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if parent := filepath.Dir(folder); parent != folder {
			folder = parent
			continue
		}
		return "", &os.PathError{Op: "the tests need an S3 server; `make " + program + "` builds it: find", Path: program, Err: os.ErrNotExist}
	}
}

// awaitHealth returns when the server answers.
func awaitHealth(t testing.TB, url string, ca *certs.Authority) {
	t.Helper()
	server := bucket.Server{CAFile: ca.File()}
	transport, err := server.Transport()
	require.NoError(t, err)
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: 10 * time.Second}
	require.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		response.Body.Close() //nolint:errcheck // empty
		return response.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond)
}

func administer(t testing.TB, url string, args ...string) {
	t.Helper()
	cmd := command(t.Context(), t, append([]string{"admin", "--allow-insecure", "--endpoint-url", url}, args...)...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Run(), "%s", &output)
}
