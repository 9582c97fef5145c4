// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package busy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// herd is a number of watches that come at once, and what happens then.
type herd struct {
	watches, connections int
	// events is how many ConfigMaps are created, pause the time between two. Each of them is an event for all watches.
	events int
	pause  time.Duration
	// tokens is how many new tokens are asked about meanwhile.
	tokens int
	// opened is called beside the first events, once all watches are open. It may be nil.
	opened func()
}

// patience is how long a herd may take. It only ends tests that would never end.
const patience = 4 * time.Minute

// account is a ServiceAccount whose tokens are asked about.
const account = "busy"

// count is what became of a herd.
type count struct {
	refused, ended, complete atomic.Int64
	// writesFailed counts ConfigMaps that could not be created, tokensRefused tokens that were not accepted.
	writesFailed, tokensRefused atomic.Int64
	took                        time.Duration

	mu sync.Mutex
	// why are the first reasons.
	why []string
}

func (c *count) note(counter *atomic.Int64, format string, args ...any) {
	counter.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.why) < 5 {
		c.why = append(c.why, fmt.Sprintf(format, args...))
	}
}

func (c *count) String() string {
	return fmt.Sprintf("watches: %d refused, %d ended, %d complete; %d writes failed; %d tokens refused; %.1f s %s", c.refused.Load(), c.ended.Load(),
		c.complete.Load(), c.writesFailed.Load(), c.tokensRefused.Load(), c.took.Seconds(), strings.Join(c.why, "; "))
}

// run lets the herd loose on an API server.
func (h herd) run(t *testing.T, config *rest.Config) *count {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	admin := clientOf(t, config)
	list, err := admin.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	label := framework.UniqueName("herd")
	query := url.Values{"watch": {"1"}, "labelSelector": {"herd=" + label}, "resourceVersion": {list.ResourceVersion}}
	path := config.Host + "/api/v1/namespaces/default/configmaps?" + query.Encode()

	c := &count{}
	began := time.Now()
	var watching, begun sync.WaitGroup
	for i := range h.connections {
		client := transportOf(t, config)
		for range h.watches/h.connections + min(1, max(0, h.watches%h.connections-i)) {
			begun.Add(1)
			watching.Go(func() { h.watch(ctx, client, path, c, sync.OnceFunc(begun.Done)) })
		}
	}
	var others sync.WaitGroup
	defer others.Wait()
	if h.opened != nil {
		begun.Wait()
		others.Go(h.opened)
	}
	others.Go(func() { h.askAboutTokens(ctx, t, config, admin, c) })
	// Like the herd itself, the writer does not wait for those who are slow.
	for i := range h.events {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", label, i), Labels: map[string]string{"herd": label}}}
		if _, err := admin.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
			c.note(&c.writesFailed, "create: %v", err)
		}
		time.Sleep(h.pause) // the rate of events is the load
	}
	others.Wait()
	watching.Wait()
	c.took = time.Since(began)
	return c
}

// watch opens one watch and reads it until it has all events.
func (h herd) watch(ctx context.Context, client *http.Client, path string, c *count, begun func()) {
	defer begun()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		c.note(&c.refused, "%v", err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		c.note(&c.refused, "%v", err)
		return
	}
	defer resp.Body.Close() //nolint:errcheck // the watch is over
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		c.note(&c.refused, "%s: %s", resp.Status, text)
		return
	}
	begun()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for seen := 0; lines.Scan(); {
		if seen++; seen == h.events {
			c.complete.Add(1)
			return
		}
	}
	c.note(&c.ended, "the watch ended: %v", lines.Err())
}

// askAboutTokens uses tokens that no API server has seen before.
func (h herd) askAboutTokens(ctx context.Context, t *testing.T, config *rest.Config, admin kubernetes.Interface, c *count) {
	for range h.tokens {
		issued, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			c.note(&c.tokensRefused, "token: %v", err)
			continue
		}
		bearer := rest.AnonymousClientConfig(config)
		bearer.BearerToken = issued.Status.Token
		if _, err := clientOf(t, bearer).Discovery().ServerVersion(); err != nil {
			c.note(&c.tokensRefused, "token: %v", err)
		}
	}
}

func clientOf(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// transportOf returns a client with a connection of its own.
func transportOf(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(config)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// expect checks that a herd lost nothing.
func (c *count) expect(t *testing.T, h herd) {
	t.Helper()
	assert.EqualValues(t, h.watches, c.complete.Load(), "%s", c)
	assert.Zero(t, c.writesFailed.Load(), "%s", c)
	assert.Zero(t, c.tokensRefused.Load(), "%s", c)
}
