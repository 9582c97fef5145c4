// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// receiver is a webhook that takes audit events.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	events []auditv1.Event
	failed error
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var list auditv1.EventList
		err := json.NewDecoder(req.Body).Decode(&list)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.failed = err
		}
		r.events = append(r.events, list.Items...)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) config(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "webhook.kubeconfig")
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\n"+
		"contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n", r.URL)
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	return path
}

// stages counts the events of each of the tests' requests, as in "test-7 ResponseComplete".
func stages(events []auditv1.Event) map[string]int {
	counts := map[string]int{}
	for _, event := range events {
		if strings.HasPrefix(string(event.AuditID), testsPrefix) {
			counts[string(event.AuditID)+" "+string(event.Stage)]++
		}
	}
	return counts
}

const (
	// workers send rounds of requests that each service has some of.
	workers, rounds = 8, 25
	// webhookLimit is what an event may have for the webhook, in bytes, and large what one object has.
	webhookLimit, large = 20_000, 60_000
)

// sendMany sends requests that different services audit and returns how many these were.
func sendMany(ctx context.Context, cluster *framework.Cluster) (sent int, err error) {
	client, err := rest.HTTPClientFor(cluster.Admin())
	if err != nil {
		return 0, err
	}
	requests := []request{
		get("", admin, "/api/v1/namespaces/default"),                                                                     // core
		get("", admin, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),                                        // extensions
		get("", admin, "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps"),                                            // aggregator
		send("", http.MethodPost, "/api/v1/namespaces/default/configmaps?dryRun=All", "application/json", largeObject()), // too long for the webhook
	}
	working, ctx := errgroup.WithContext(ctx)
	for worker := range workers {
		working.Go(func() error {
			for i := range rounds * len(requests) {
				r := requests[i%len(requests)]
				req, err := http.NewRequestWithContext(ctx, r.method, cluster.URL+r.path, strings.NewReader(r.body))
				if err != nil {
					return err
				}
				req.Header = r.headers(fmt.Sprintf("%s%d-%d", testsPrefix, worker, i))
				response, err := client.Do(req)
				if err != nil {
					return err
				}
				_ = response.Body.Close()
				if response.StatusCode >= http.StatusBadRequest {
					return fmt.Errorf("%s: %s", r.path, response.Status)
				}
			}
			return nil
		})
	}
	return workers * rounds * len(requests), working.Wait()
}

func largeObject() string {
	return marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": metav1.ObjectMeta{Name: "large"},
		"data": map[string]string{"key": strings.Repeat("x", large)},
	})
}

func TestEveryEventIsInTheFileAndAtTheWebhookOnce(t *testing.T) {
	for _, mode := range []string{"batch", "blocking-strict"} {
		t.Run(mode, func(t *testing.T) {
			both.RunFresh(t, func(t *testing.T, env *framework.Environment, tripod bool) { checkBackends(t, env, tripod, mode) })
		})
	}
}

func checkBackends(t *testing.T, env *framework.Environment, tripod bool, mode string) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	webhook, log := startReceiver(t), filepath.Join(t.TempDir(), "log", "audit.log")
	server, err := env.StartStock(t.Context(), framework.StockOptions{DropIn: tripod, Args: append(flags(policy, log),
		"--audit-log-mode="+mode, "--audit-log-maxsize=20", "--audit-log-maxbackup=100",
		"--audit-webhook-config-file="+webhook.config(t), "--audit-webhook-mode=batch", "--audit-webhook-batch-max-size=50",
		"--audit-webhook-batch-throttle-qps=100", "--audit-webhook-truncate-enabled", fmt.Sprintf("--audit-webhook-truncate-max-event-size=%d", webhookLimit),
	)})
	require.NoError(t, err)
	sent, err := sendMany(t.Context(), server.Cluster)
	require.NoError(t, err)
	require.NoError(t, server.Process.Stop())

	logged, files := readLogs(t, filepath.Dir(log))
	t.Logf("%d requests, %d events in %d files, %d at the webhook", sent, len(logged), files, len(webhook.events))
	if files < 2 {
		t.Error("the log was not rotated")
	}
	counts := stages(logged)
	if len(counts) != 2*sent {
		t.Errorf("%d different events of %d requests are in the log", len(counts), sent)
	}
	for event, n := range counts {
		assert.Equal(t, 1, n, "%s is %d times in the log", event, n)
	}
	if webhook.failed != nil {
		t.Error(webhook.failed)
	}
	if received := stages(webhook.events); !maps.Equal(received, counts) {
		t.Errorf("the webhook has other events than the log: %d and %d", len(received), len(counts))
	}
	checkTruncation(t, logged, webhook.events)
}

// checkTruncation compares events of what is too long for the webhook.
func checkTruncation(t *testing.T, logged, received []auditv1.Event) {
	t.Helper()
	whole := slices.IndexFunc(logged, func(e auditv1.Event) bool { return e.RequestObject != nil && len(e.RequestObject.Raw) > large })
	if whole < 0 {
		t.Error("the log has no long event")
	}
	cut := 0
	for _, event := range received {
		if event.Annotations["audit.k8s.io/truncated"] == "true" {
			cut++
		}
		if event.RequestObject != nil && len(event.RequestObject.Raw) > webhookLimit {
			t.Errorf("%s is at the webhook with all its %d bytes", event.AuditID, len(event.RequestObject.Raw))
		}
	}
	if cut == 0 {
		t.Error("no event at the webhook was truncated")
	}
}

// logName is what the log is called, and what those before are that were put aside.
var logName = regexp.MustCompile(`^audit(-\d{4}-\d{2}-\d{2}T.*)?\.log$`)

// readLogs returns the events of all files of a directory, which has nothing else.
func readLogs(t *testing.T, dir string) (events []auditv1.Event, files int) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, path := range paths {
		if !logName.MatchString(filepath.Base(path)) {
			t.Errorf("there is a file %s", path)
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range bytes.Lines(content) {
			var event auditv1.Event
			if err := json.Unmarshal(line, &event); err != nil || !bytes.HasSuffix(line, []byte("\n")) {
				t.Fatalf("%s: %v: %.200s", path, err, line)
			}
			events = append(events, event)
		}
	}
	return events, len(paths)
}
