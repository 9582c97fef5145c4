// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregators

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// load is clients that repeat nothing, each on a connection of its own.
type load struct {
	namespace string
	working   sync.WaitGroup
	requests  atomic.Int64

	mu       sync.Mutex
	failures []string
	watches  map[string]int
}

// pause is that between two requests of a client: a connection that is used moves before requests on it are refused.
const pause = 20 * time.Millisecond

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// client returns a client with its own connection.
func client(t testing.TB, cluster *framework.Cluster, http2 bool) *http.Client {
	t.Helper()
	config, err := rest.TLSConfigFor(cluster.Admin())
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: http2, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ask sends a request, and returns the body of the answer.
func ask(ctx context.Context, client *http.Client, method, url, body string, want int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return "", err
	}
	if resp.StatusCode != want {
		return "", fmt.Errorf("%s %s: %s", method, resp.Status, answer)
	}
	return string(answer), nil
}

// use writes and reads until the context ends.
func (l *load) use(ctx context.Context, client *http.Client, url, name string) {
	all := url + "/api/v1/namespaces/" + l.namespace + "/configmaps"
	for n := 0; ctx.Err() == nil; n++ {
		one := fmt.Sprintf("%s-%d", name, n)
		for _, step := range []struct {
			method, url, body string
			want              int
		}{
			{http.MethodPost, all, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, one), http.StatusCreated},
			{http.MethodGet, all + "/" + one, "", http.StatusOK},
			{http.MethodDelete, all + "/" + one, "", http.StatusOK},
		} {
			if _, err := ask(context.WithoutCancel(ctx), client, step.method, step.url, step.body, step.want); err != nil {
				l.fail("%s %s: %v", step.method, one, err)
			}
			l.requests.Add(1)
			time.Sleep(pause)
		}
	}
}

// watch watches until the context ends. However a watch ends, it must not be with an error.
func (l *load) watch(ctx context.Context, client *http.Client, url, name string) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/namespaces/"+l.namespace+"/configmaps?watch=true", nil)
		if err != nil {
			l.fail("%v", err)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			if ctx.Err() == nil {
				l.fail("watch: %v", err)
			}
			continue
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if ctx.Err() == nil && (err != nil || resp.StatusCode != http.StatusOK) {
			l.fail("watch: %s, %v", resp.Status, err)
		}
		_ = resp.Body.Close() // read to its end
		l.mu.Lock()
		l.watches[name]++
		l.mu.Unlock()
	}
}

// run has clients work until stop is called.
func run(t *testing.T, cluster *framework.Cluster) (l *load, stop func()) {
	t.Helper()
	l = &load{namespace: framework.CreateNamespace(t, cluster), watches: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 8 {
		http2, name := i%2 == 0, fmt.Sprintf("client-%d", i)
		c := client(t, cluster, http2)
		l.working.Go(func() { l.use(ctx, c, cluster.URL, name) })
		w := client(t, cluster, http2)
		l.working.Go(func() { l.watch(ctx, w, cluster.URL, name) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		l.working.Wait()
	})
	t.Cleanup(stop)
	return l, stop
}

// progress returns when clients have got some more answers.
func (l *load) progress(t *testing.T) {
	t.Helper()
	before := l.requests.Load()
	framework.Eventually(t, "clients make progress", func(context.Context) error {
		if n := l.requests.Load() - before; n < 200 {
			return fmt.Errorf("they got %d answers", n)
		}
		return nil
	})
}

func TestAggregatorsComeAndGoWithoutClientsNoticing(t *testing.T) {
	env := framework.ForTest(t)
	tripod, err := env.StartTripod(t.Context(), framework.TripodOptions{Args: []string{
		"--aggregator-replicas", "2", "--lb",
		// The balancer asks every two seconds who is ready.
		"--aggregator-arg=--shutdown-delay-duration=5s",
	}})
	require.NoError(t, err)
	l, stop := run(t, tripod.Cluster)
	l.progress(t)
	for _, n := range []int{1, 2} {
		began := time.Now()
		require.NoError(t, tripod.Scale(t.Context(), "aggregator", n))
		t.Logf("scaling to %d took %.1f s", n, time.Since(began).Seconds())
		l.progress(t)
	}
	for _, name := range []string{"aggregator-0", "aggregator-1"} {
		began := time.Now()
		require.NoError(t, tripod.Restart(t.Context(), name))
		t.Logf("%s was back after %.1f s", name, time.Since(began).Seconds())
		l.progress(t)
	}
	stop()
	for _, failure := range l.failures {
		t.Error(failure)
	}
	moved := 0
	for _, n := range l.watches {
		moved += n
	}
	if moved < 8 {
		t.Errorf("watches ended %d times", moved)
	}
	t.Logf("%d requests, %d failed; watches ended %d times", l.requests.Load(), len(l.failures), moved)
}
