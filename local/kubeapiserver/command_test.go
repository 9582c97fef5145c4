// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/base/certs"
)

// asMain makes the test binary be kube-apiserver.
const asMain = "TRIPOD_TEST_AS_KUBE_APISERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// kubeAPIServer runs kube-apiserver to its end.
func kubeAPIServer(t *testing.T, args ...string) (stdout, stderr string, exitCode int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestVersionIsThatOfKubernetes(t *testing.T) {
	stdout, stderr, code := kubeAPIServer(t, "--version")
	if want := "Kubernetes " + version.Get().GitVersion + "\n"; stdout != want || code != 0 {
		t.Errorf("exit code %d, says %q and %q, want %q", code, stdout, stderr, want)
	}
}

func TestHelpHasTheSectionsOfKubeAPIServer(t *testing.T) {
	stdout, _, code := kubeAPIServer(t, "--help")
	assert.Equal(t, 0, code, "exit code")
	for _, part := range []string{
		"Usage:\n  kube-apiserver [flags]", "\nGeneric flags:", "\nEtcd flags:", "\nAuthorization flags:", "\nGlobal flags:",
		"--etcd-servers", "--log-json-split-stream", "--version",
	} {
		assert.Contains(t, stdout, part, "%q is not in the help", part)
	}
	if strings.Contains(stdout, "--core-servers") || strings.Contains(stdout, "--advertise-port") {
		t.Error("the help has flags that kube-apiserver does not have")
	}
}

func TestArgumentsThatKubeAPIServerDoesNotTake(t *testing.T) {
	for _, tc := range []struct{ arg, want string }{
		{"--core-servers=https://127.0.0.1", "Error: unknown flag: --core-servers\n"},
		{"--secure-port=x", `Error: invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": invalid syntax` + "\n"},
		{"serve", `Error: "kube-apiserver" does not take any arguments, got ["serve"]` + "\n"},
		{"--feature-gates=Nope=true", "Error: unrecognized feature gate: Nope\n"},
	} {
		t.Run(tc.arg, func(t *testing.T) {
			if _, stderr, code := kubeAPIServer(t, tc.arg); stderr != tc.want || code != 1 {
				t.Errorf("exit code %d, says %q, want %q", code, stderr, tc.want)
			}
		})
	}
}

// required are the flags without which kube-apiserver does not start.
func required(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	store, err := certs.Open(dir)
	require.NoError(t, err)
	require.NoError(t, store.EnsureSigningKey("sa"))
	return []string{
		"--etcd-servers=http://127.0.0.1:1",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + store.PublicKeyFile("sa"),
		"--service-account-signing-key-file=" + store.KeyFile("sa"),
		"--advertise-address=192.0.2.1",
		"--cert-dir=" + filepath.Join(dir, "certs"),
	}
}

// started runs the command as far as the start of the services and returns what they would be started with.
func started(t *testing.T, args []string) (*plan, error) {
	t.Helper()
	require.NoError(t, logsapi.ResetForTest(utilfeature.DefaultFeatureGate))
	var result *plan
	cmd := newCommand(args, func(_ context.Context, _ *catalog, s *plan) error {
		result = s
		return nil
	})
	cmd.SilenceErrors = true
	cmd.SetContext(t.Context())
	err := cmd.Execute()
	return result, err
}

func TestFlagsWithoutWhichNothingStarts(t *testing.T) {
	all := required(t)
	for name, want := range map[string]string{
		"--etcd-servers":             "--etcd-servers must be specified",
		"--service-account-issuer":   "service-account-issuer is a required flag",
		"--service-account-key-file": "`--service-account-key-file` or `--service-account-signing-endpoint` must be set",
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			for _, arg := range all {
				if !strings.HasPrefix(arg, name+"=") {
					args = append(args, arg)
				}
			}
			if _, err := started(t, args); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestRefusedForNeedOfOneProcess(t *testing.T) {
	for _, arg := range []string{
		"--peer-ca-file=ca.crt",
		"--peer-advertise-ip=192.0.2.1",
		"--peer-advertise-port=6443",
		"--feature-gates=StorageVersionAPI=true",
		"--feature-gates=UnknownVersionInteroperabilityProxy=true",
	} {
		t.Run(arg, func(t *testing.T) {
			_, stderr, code := kubeAPIServer(t, append(required(t), arg)...)
			if code != 1 || !strings.HasPrefix(stderr, "Error: "+arg[:strings.LastIndexByte(arg, '=')]) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, says %q", code, stderr)
			}
		})
	}
}

func TestWrongPartitionsAreOneLineBeforeAnythingIsMade(t *testing.T) {
	for name, test := range map[string]struct {
		given []string
		want  string
	}{
		"a built-in group":           {[]string{"a=apps"}, "partition a: apps has the group apps, which is built in"},
		"overlapping lists":          {[]string{"a=*.example.com", "b=b.example.com"}, "partitions a and b overlap: *.example.com and b.example.com have groups in common"},
		"a partition without groups": {[]string{"a="}, "partition a: name at least one API group"},
		"everything":                 {[]string{"a=*"}, `partition a: "*" matches every API group: give groups, or *.SUFFIX`},
	} {
		t.Run(name, func(t *testing.T) {
			args := required(t)
			for _, given := range test.given {
				args = append(args, "--extensions-partition="+given)
			}
			_, stderr, code := kubeAPIServer(t, args...)
			assert.Equal(t, "Error: --extensions-partition: "+test.want+"\n", stderr)
			assert.Equal(t, 1, code)
			certificates, _ := strings.CutPrefix(args[5], "--cert-dir=")
			assert.NoDirExists(t, certificates)
		})
	}
}

func TestPartitionsRunAfterTheDefaultOne(t *testing.T) {
	s, err := started(t, append(required(t), "--extensions-partition=b=*.example.com", "--extensions-partition=a=example.com"))
	require.NoError(t, err)
	assert.Equal(t, []serviceName{core, extensions, "extensions-a", "extensions-b", aggregator}, s.services())
	assert.Equal(t, []string{"--partition=b"}, partitionArguments("extensions-b"))
	for _, other := range []serviceName{core, extensions, aggregator} {
		assert.Empty(t, partitionArguments(other))
	}
}

func TestGatesInAllTheirForms(t *testing.T) {
	for _, tc := range []struct {
		name    string
		values  []string
		refused bool
	}{
		{"off", []string{"StorageVersionAPI=false"}, false},
		{"another", []string{"CBORServingAndStorage=true"}, false},
		{"among others", []string{"A=true, StorageVersionAPI=true"}, true},
		{"with the component", []string{"kube:StorageVersionAPI=t"}, true},
		{"on and off again", []string{"StorageVersionAPI=true", "StorageVersionAPI=false"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var given []flagValue
			for _, value := range tc.values {
				given = append(given, flagValue{"feature-gates", value})
			}
			if err := refuse(given); (err != nil) != tc.refused {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCertificateIsMadeAsByKubeAPIServer(t *testing.T) {
	s, err := started(t, append(required(t), "--service-cluster-ip-range=10.96.0.0/16"))
	require.NoError(t, err)
	files, err := s.certificateFiles(t.TempDir())
	require.NoError(t, err)
	data, err := os.ReadFile(files.CertFile)
	require.NoError(t, err)
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	for _, name := range []string{"kubernetes.default.svc", "localhost", "192.0.2.1", "10.96.0.1"} {
		assert.NoError(t, cert.VerifyHostname(name))
	}
}

func TestCertificateWithoutADirectoryIsWrittenToThePrivateOne(t *testing.T) {
	s, err := started(t, append(required(t), "--cert-dir="))
	require.NoError(t, err)
	dir := t.TempDir()
	files, err := s.certificateFiles(dir)
	require.NoError(t, err)
	for _, path := range []string{files.CertFile, files.KeyFile} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		if filepath.Dir(path) != dir || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
	}
}

func TestAddressesFollowTheFlags(t *testing.T) {
	s, err := started(t, append(required(t), "--secure-port=7443", "--bind-address=127.0.0.1"))
	require.NoError(t, err)
	if s.securePort != 7443 || !s.bindAddress.Equal(net.IPv4(127, 0, 0, 1)) || !s.advertiseAddress.Equal(net.IPv4(192, 0, 2, 1)) {
		t.Errorf("serves on %v port %d as %v", s.bindAddress, s.securePort, s.advertiseAddress)
	}
}

func TestGroupsInRuntimeConfigAreThoseOfKubernetes(t *testing.T) {
	for _, group := range []string{
		"v1", "storagemigration.k8s.io/v1beta1", "resource.k8s.io/v1beta1", "networking.k8s.io/v1beta1", "internal.apiserver.k8s.io/v1alpha1",
		"apiregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "api/all",
	} {
		if _, err := started(t, append(required(t), "--runtime-config="+group+"=true")); err != nil {
			t.Errorf("%s: %v", group, err)
		}
	}
	if _, err := started(t, append(required(t), "--runtime-config=nobody.example.org/v1=true")); err == nil {
		t.Error("a group that nobody has is not refused")
	}
}
