// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// services are the three services with flags for one another, and an etcd that they share; none runs yet.
type services struct {
	environment *framework.Environment
	pki         string
	urls        map[string]string
	probes      map[string]string
	grpc        map[string]string
	etcd        string
	flags       map[string][]string
}

func newServices(t testing.TB) *services {
	t.Helper()
	both.NeedsTripod(t)
	s := &services{environment: framework.ForTest(t), pki: cluster.PKI, urls: map[string]string{}, probes: map[string]string{}, grpc: map[string]string{}, flags: map[string][]string{}}
	for _, name := range []string{"core", "extensions", "aggregator", "etcd"} {
		port, err := framework.FreePort()
		require.NoError(t, err)
		s.urls[name] = fmt.Sprintf("https://127.0.0.1:%d", port)
		port, err = framework.FreePort()
		require.NoError(t, err)
		s.probes[name] = fmt.Sprintf("127.0.0.1:%d", port)
		port, err = framework.FreePort()
		require.NoError(t, err)
		s.grpc[name] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	s.etcd = strings.Replace(s.urls["etcd"], "https", "http", 1)
	authentication := []string{
		"--client-ca-file=" + s.file("ca.crt"),
		"--requestheader-client-ca-file=" + s.file("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + s.file("front-proxy-client.crt"), "--proxy-client-key-file=" + s.file("front-proxy-client.key"),
	}
	s.flags["core"] = append(s.common("core", "core"), append(authentication,
		"--grpc-bind-address="+s.grpc["core"], "--aggregator-servers="+s.urls["aggregator"], "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+s.file("sa.pub"), "--service-account-signing-key-file="+s.file("sa.key"))...)
	s.flags["extensions"] = append(s.common("extensions", "extensions"), "--core-servers="+s.urls["core"], "--grpc-bind-address="+s.grpc["extensions"], "--aggregator-servers="+s.urls["aggregator"])
	s.flags["aggregator"] = append(s.common("aggregator", "apiserver"), append(authentication,
		"--core-servers="+s.urls["core"], "--core-grpc-servers="+s.grpc["core"],
		"--extensions-servers="+s.urls["extensions"], "--extensions-grpc-servers="+s.grpc["extensions"])...)
	return s
}

func (s *services) file(name string) string { return filepath.Join(s.pki, name) }

func (s *services) common(service, serving string) []string {
	return []string{
		"--etcd-servers=" + s.etcd, "--bind-address=127.0.0.1", "--secure-port=" + portOf(s.urls[service]),
		"--probe-bind-address=" + s.probes[service], "--authorization-mode=RBAC",
		"--tls-cert-file=" + s.file(serving+".crt"), "--tls-private-key-file=" + s.file(serving+".key"),
		"--service-ca-file=" + s.file("service-ca.crt"), "--service-cert-file=" + s.file(service+".crt"), "--service-key-file=" + s.file(service+".key"),
	}
}

func portOf(url string) string { return url[strings.LastIndex(url, ":")+1:] }

func (s *services) start(t testing.TB, service string, flags ...string) *framework.Process {
	t.Helper()
	process, err := s.environment.Start(framework.Command{
		Name: service, Path: s.environment.Binary("tripod-" + service), Args: append(slices.Clone(s.flags[service]), flags...),
	})
	require.NoError(t, err)
	return process
}

func (s *services) startEtcd(t testing.TB) {
	t.Helper()
	port, err := framework.FreePort()
	require.NoError(t, err)
	peer := fmt.Sprintf("http://127.0.0.1:%d", port)
	_, err = s.environment.Start(framework.Command{
		Name: "etcd", Path: s.environment.Binary("test-assets/etcd"),
		Args: []string{
			"--data-dir=" + filepath.Join(s.environment.Dir, "etcd-data"), "--unsafe-no-fsync", "--log-level=error",
			"--listen-client-urls=" + s.etcd, "--advertise-client-urls=" + s.etcd,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		},
	})
	require.NoError(t, err)
}

// readyz returns what a service answers to readiness probes.
func (s *services) readyz(ctx context.Context, service string) (response, error) {
	return send(ctx, &rest.Config{Host: "http://" + s.probes[service]}, http.MethodGet, "/readyz?verbose", nil, nil)
}

func TestAServiceAloneSaysWhatItWaitsForAndStopsWhenAsked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		service  string
		withEtcd bool
		waitsFor []string
	}{
		{"core", false, []string{"etcd"}},
		{"extensions", false, []string{"etcd"}},
		{"extensions", true, []string{"core"}},
		{"aggregator", false, []string{"etcd"}},
		{"aggregator", true, []string{"core", "extensions"}},
	} {
		t.Run(fmt.Sprintf("%s with etcd %v", test.service, test.withEtcd), func(t *testing.T) {
			t.Parallel()
			services := newServices(t)
			if test.withEtcd {
				services.startEtcd(t)
			}
			process := services.start(t, test.service)
			framework.Eventually(t, "readyz names what is missing", func(ctx context.Context) error {
				resp, err := services.readyz(ctx, test.service)
				if err != nil {
					return err
				}
				if resp.Code == http.StatusOK {
					return fmt.Errorf("ready: %s", resp.Body)
				}
				failing := failingChecks(string(resp.Body))
				for _, want := range test.waitsFor {
					if !slices.ContainsFunc(failing, func(check string) bool { return strings.Contains(check, want) }) {
						return fmt.Errorf("failing are only %q, code %d: %s", failing, resp.Code, resp.Body)
					}
				}
				// The CRD server of Kubernetes takes it for a failure to be stopped while it lists CRDs.
				if strings.Contains(strings.Join(failing, " "), "crd-informer-synced") {
					return fmt.Errorf("still listing CRDs: %s", resp.Body)
				}
				return nil
			})
			require.NoError(t, process.Signal(syscall.SIGTERM))
			if code := exitCode(t, process); code != 0 {
				t.Errorf("exit code %d after SIGTERM", code)
			}
		})
	}
}

// exitCode waits for a process that should end by itself.
func exitCode(t testing.TB, process *framework.Process) int {
	t.Helper()
	select {
	case <-process.Done():
	case <-time.After(giveUp):
		t.Fatal("it goes on and on")
	}
	return process.ExitCode()
}

// failingChecks returns the names of the checks that fail.
func failingChecks(verbose string) []string {
	var names []string
	for line := range strings.Lines(verbose) {
		if check, failing := strings.CutPrefix(line, "[-]"); failing {
			names = append(names, check)
		}
	}
	return names
}

func TestServicesMayStartInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{
		{"aggregator", "extensions", "core", "etcd"},
		{"extensions", "etcd", "aggregator", "core"},
	} {
		t.Run(strings.Join(order, ", "), func(t *testing.T) {
			t.Parallel()
			services := newServices(t)
			for _, name := range order {
				if name == "etcd" {
					services.startEtcd(t)
					continue
				}
				process := services.start(t, name)
				// Before etcd is: without it core does not end its watches.
				t.Cleanup(func() {
					assert.NoError(t, process.Stop())
				})
				framework.Eventually(t, name+" listens", func(ctx context.Context) error {
					_, err := services.readyz(ctx, name)
					return err
				})
			}
			for _, name := range []string{"core", "extensions", "aggregator"} {
				framework.Eventually(t, name+" is ready", func(ctx context.Context) error {
					resp, err := services.readyz(ctx, name)
					if err == nil && resp.Code != http.StatusOK {
						err = fmt.Errorf("%d: %s", resp.Code, resp.Body)
					}
					return err
				})
			}
			started := &framework.Cluster{URL: services.urls["aggregator"], PKI: services.pki}
			gvr, err := createCRD(t.Context(), started, newWidgets())
			require.NoError(t, err)
			r := resource{gvr, "Widget"}
			create(t, r.of(t, started, framework.CreateNamespace(t, started)), r.object("a", "red"))
		})
	}
}

func TestAServiceThatCannotStartSaysWhyInOneLine(t *testing.T) {
	t.Parallel()
	notACertificate := filepath.Join(t.TempDir(), "not-a-certificate")
	require.NoError(t, os.WriteFile(notACertificate, []byte("hello"), 0o600))
	busy := portOf(cluster.URL)
	for _, service := range []string{"core", "extensions", "aggregator"} {
		for _, test := range []struct{ name, flag, want string }{
			{"unknown flag", "--no-such-flag", "no-such-flag"},
			{"bad value", "--secure-port=many", "secure-port"},
			{"busy port", "--secure-port=" + busy, busy},
			{"missing file", "--tls-cert-file=/missing.crt", "/missing.crt"},
			{"missing service certificate", "--service-cert-file=/missing.crt", "/missing.crt"},
			{"unusable CA", "--service-ca-file=" + notACertificate, notACertificate},
			{"bad etcd URL", "--etcd-servers=:::", ":::"},
			{"clients of the service CA", "--client-ca-file=" + filepath.Join(cluster.PKI, "service-ca.crt"), "--service-ca-file"},
		} {
			t.Run(service+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				process := newServices(t).start(t, service, test.flag)
				if code := exitCode(t, process); code == 0 {
					t.Error("exit code 0")
				}
				log, err := os.ReadFile(process.Log)
				require.NoError(t, err)
				complaints := complaints(string(log))
				if len(complaints) != 1 || !strings.Contains(complaints[0], test.want) {
					t.Errorf("it says %q", complaints)
				}
			})
		}
	}
}

// complaints returns the lines that are not for the log.
func complaints(output string) []string {
	var lines []string
	for line := range strings.Lines(output) {
		// Logs begin with a letter for their severity and the date.
		if len(line) > 5 && strings.ContainsRune("IWEF", rune(line[0])) && line[1] >= '0' && line[1] <= '9' {
			continue
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}
