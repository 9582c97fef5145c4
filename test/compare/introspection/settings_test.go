// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package introspection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// gatePattern finds the gates in the help of --feature-gates.
var gatePattern = regexp.MustCompile(`kube:\w+=true\|false \([^)]*\)`)

func TestAllServicesKnowTheGatesOfStock(t *testing.T) {
	gates := func(binary string) []string {
		help, err := exec.CommandContext(t.Context(), environment.Binary(binary), "--help").Output()
		require.NoError(t, err)
		// The help is broken into lines.
		found := gatePattern.FindAllString(strings.Join(strings.Fields(string(help)), " "), -1)
		slices.Sort(found)
		return found
	}
	want := gates("test-assets/kube-apiserver")
	if len(want) < 100 {
		t.Fatalf("found %d gates in the help of stock", len(want))
	}
	for _, service := range []string{"tripod-core", "tripod-extensions", "tripod-aggregator"} {
		if got := gates(service); !slices.Equal(got, want) {
			t.Errorf("%s knows\n%q, want\n%q", service, got, want)
		}
	}
}

func TestTheDropInGivesEveryServiceTheSameSettings(t *testing.T) {
	for name, args := range map[string][]string{
		"an older version": {"--emulated-version=1.35", "--min-compatibility-version=1.34", "--runtime-config=api/beta=true"},
		"everything":       {"--feature-gates=AllAlpha=true,AllBeta=true", "--runtime-config=api/all=true"},
	} {
		t.Run(name, func(t *testing.T) {
			env := framework.ForTest(t)
			cluster, err := env.StartStock(t.Context(), framework.StockOptions{Args: args, DropIn: true})
			require.NoError(t, err)
			for _, path := range []string{"/readyz/same-settings", "/readyz/same-settings-once"} {
				if got := ask(t, newSide(cluster.Cluster), admin, get(path)); got.code != http.StatusOK {
					t.Errorf("%s: %d %s", path, got.code, got.body)
				}
			}
		})
	}
}

func TestTripodUpGivesEveryServiceTheSameSettings(t *testing.T) {
	env := framework.ForTest(t)
	tripod, err := env.StartTripod(t.Context(), framework.TripodOptions{Args: []string{
		"--feature-gates=CBORServingAndStorage=true", "--emulated-version=1.35", "--runtime-config=api/beta=true", "--extensions-replicas=2",
	}})
	require.NoError(t, err)
	side := newSide(tripod.Cluster)
	for _, service := range []string{"aggregator", "core", "extensions"} {
		metrics := ask(t, side, admin, get("/metrics?service="+service)).body
		for _, want := range []string{
			`kubernetes_feature_enabled{name="CBORServingAndStorage",stage="ALPHA"} 1`,
			`emulation="1.35",min_compat="1.34"} 1`,
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("%s is not in the metrics of %s:\n%s", want, service, about(metrics, "CBORServingAndStorage", "version_info"))
			}
		}
	}
	if got := ask(t, side, admin, get("/readyz/same-settings")); got.code != http.StatusOK {
		t.Errorf("%d %s", got.code, got.body)
	}
}

// about returns the lines that have one of the words.
func about(text string, words ...string) string {
	var found []string
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

func TestWhatOneProcessWouldNeedIsRefusedByEachService(t *testing.T) {
	for service, args := range map[string][]string{
		"tripod-core":       {"--feature-gates=StorageVersionAPI=true,APIServerIdentity=true"},
		"tripod-extensions": {"--feature-gates=StorageVersionAPI=true,APIServerIdentity=true"},
		"tripod-aggregator": {"--feature-gates=StorageVersionAPI=true,APIServerIdentity=true"},
		"tripod":            {"up", "--data-dir=" + t.TempDir(), "--core-arg=--runtime-config=api/all=true"},
	} {
		want := map[bool]string{true: "--runtime-config must be the same for all services", false: "StorageVersionAPI=true cannot be used"}[service == "tripod"]
		output, err := exec.CommandContext(t.Context(), environment.Binary(service), args...).CombinedOutput()
		if err == nil || !strings.Contains(string(output), want) {
			t.Errorf("%s %q: %v, says %s", service, args, err, output)
		}
	}
}

func TestAnAggregatorWaitsForServicesThatAgreeWithIt(t *testing.T) {
	gate := []string{"--feature-gates=CBORServingAndStorage=true"}
	other := framework.NewFleet(t, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
		{Name: "core-0"}, {Name: "extensions-0", Args: gate}, {Name: "aggregator-0", Later: true},
		{Name: "core-1", Args: gate, Later: true}, {Name: "aggregator-1", Args: gate, Later: true},
	}})
	for _, name := range []string{"aggregator-0", "aggregator-1"} {
		require.NoError(t, other.Replica(name).Start())
	}
	awaitAnswer := func(replica, path string, code int, text string) {
		t.Helper()
		awaitAnswer(t, other.Replica(replica), path, code, text)
	}
	const differs = "feature gate CBORServingAndStorage is false here and true there"
	awaitAnswer("aggregator-0", "/readyz/same-settings-once", 500, "extensions at "+strings.TrimPrefix(other.Replica("extensions-0").URL, "https://")+": "+differs)
	awaitAnswer("aggregator-0", "/readyz", 500, "[-]same-settings-once failed")
	awaitAnswer("aggregator-1", "/readyz/same-settings-once", 500, "feature gate CBORServingAndStorage is true here and false there")

	// A replica that agrees is enough to start with. The other one stays, is shown, and is used.
	require.NoError(t, other.Replica("core-1").Start())
	require.NoError(t, other.Replica("aggregator-1").WaitReady(t.Context()))
	awaitAnswer("aggregator-1", "/readyz?verbose", 200, "[-]same-settings failed: reason withheld, ignored")
	awaitAnswer("aggregator-1", "/readyz/same-settings", 500, "core at "+strings.TrimPrefix(other.Replica("core-0").URL, "https://"))
}

// awaitAnswer waits until a replica answers a probe with a code and a text.
func awaitAnswer(t *testing.T, replica *framework.Replica, path string, code int, text string) {
	t.Helper()
	framework.Eventually(t, replica.Name+path+" says "+text, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, replica.ProbeURL+path, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		if resp.StatusCode != code || !strings.Contains(string(body), text) {
			return fmt.Errorf("%d %s", resp.StatusCode, body)
		}
		return nil
	})
}

// encrypts returns an EncryptionConfiguration for Secrets and boats.
func encrypts(providers string) []byte {
	return []byte(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [
		{"resources": ["secrets", "boats.example.com"], "providers": [` + providers + `]}]}`)
}

func TestServicesThatAreConfiguredDifferentlyAreReported(t *testing.T) {
	const (
		identity = `{"identity": {}}`
		aescbc   = `{"aescbc": {"keys": [{"name": "one", "secret": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}]}}, ` + identity
		path     = "/readyz/same-configuration"
	)
	dir := t.TempDir()
	file := func(name, providers string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, encrypts(providers), 0o600))
		return "--encryption-provider-config=" + file
	}
	const reload = "--encryption-provider-config-automatic-reload=true"
	other := framework.NewFleet(t, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: []string{file("core-0", aescbc), reload}},
		{Name: "core-1", Args: []string{file("core-1", identity), reload}},
		{Name: "extensions-0", Args: []string{file("extensions-0", aescbc)}},
		{Name: "aggregator-0"},
	}})
	aggregator := other.Replica("aggregator-0")
	awaitAnswer(t, aggregator, path, http.StatusInternalServerError, "encryption of secrets is ")
	awaitAnswer(t, aggregator, "/readyz?verbose", http.StatusOK, "[-]same-configuration failed: reason withheld, ignored")
	count, err := other.Metric(t.Context(), "aggregator-0", "tripod_configuration_differences", "kind=encryption", "between=replicas")
	require.NoError(t, err)
	require.InDelta(t, 2, count, 0, "Secrets and boats")

	file("core-1", aescbc)
	awaitAnswer(t, aggregator, path, http.StatusOK, "ok")
}
