// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package busy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// herd is a number of watches that come at once, and what happens then.
type herd struct {
	watches, connections int
	// objects is how many ConfigMaps of 1 KiB are there before. If it is not 0, each watch lists first, like an informer.
	objects int
	// events is how many ConfigMaps are created, pause the time between two. Each of them is an event for all watches.
	events int
	pause  time.Duration
	// tokens is how many new tokens are asked about meanwhile.
	tokens int
	// opened is called beside the first events, once all watches are open. It may be nil.
	opened func()
}

// waitTimeout is how long a herd may take. It only ends tests that would never end.
const waitTimeout = 5 * time.Minute

// account is a ServiceAccount whose tokens are asked about.
const account = "busy"

// member is a watch of a herd.
type member struct {
	herd   *herd
	client *http.Client
	// collection is the URL of the ConfigMaps, and selected the query that selects those of the herd.
	collection, label string
	// version is where the watch begins. An informer begins where its list ends.
	version string
	count   *count
}

// run lets the herd loose on the servers. Its connections take them in turn.
func (h herd) run(t *testing.T, servers ...*rest.Config) *count {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	admin, label := clientOf(t, servers[0]), framework.UniqueName("herd")
	h.createObjects(ctx, t, admin, label)
	tokens := newTokens(ctx, t, admin, h.tokens)
	list, err := admin.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{Limit: 1})
	require.NoError(t, err)

	c := &count{}
	began := time.Now()
	var watching, begun sync.WaitGroup
	for i := range h.connections {
		server := servers[i%len(servers)]
		m := &member{
			herd: &h, client: transportOf(t, server), collection: server.Host + "/api/v1/namespaces/default/configmaps", label: label,
			version: list.ResourceVersion, count: c,
		}
		for range h.watches/h.connections + min(1, max(0, h.watches%h.connections-i)) {
			begun.Add(1)
			watching.Go(func() { m.run(ctx, sync.OnceFunc(begun.Done)) })
		}
	}
	var others sync.WaitGroup
	if h.opened != nil {
		begun.Wait()
		others.Go(h.opened)
	}
	others.Go(func() { useTokens(ctx, t, servers, tokens, c) })
	for i := range h.events {
		h.create(ctx, admin, label, i, c)
		time.Sleep(h.pause) // the rate of events is the load
	}
	others.Wait()
	watching.Wait()
	c.took = time.Since(began)
	return c
}

// create repeats a write that failed: watches wait for the event.
func (h herd) create(ctx context.Context, admin kubernetes.Interface, label string, i int, c *count) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", label, i), Labels: map[string]string{"herd": label}}}
	for ctx.Err() == nil {
		_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			return
		}
		c.note(&c.writesFailed, "create: %v", err)
		time.Sleep(100 * time.Millisecond) // as clients do
	}
}

func (h herd) createObjects(ctx context.Context, t *testing.T, admin kubernetes.Interface, label string) {
	t.Helper()
	for i := range h.objects {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-before-%d", label, i), Labels: map[string]string{"herd": label}},
			Data:       map[string]string{"data": strings.Repeat("x", 1<<10)},
		}
		_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// run opens the watch and reads it until it has all events.
func (m *member) run(ctx context.Context, begun func()) {
	defer begun()
	version, next := m.version, 0
	if m.herd.objects > 0 {
		var ok bool
		if version, next, ok = m.list(ctx); !ok {
			return
		}
	}
	resp := m.get(ctx, url.Values{"watch": {"1"}, "resourceVersion": {version}})
	if resp == nil {
		return
	}
	defer resp.Body.Close()
	begun()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for next < m.herd.events && lines.Scan() {
		i, ok := eventOf(lines.Bytes(), m.label)
		if !ok || i != next {
			m.count.note(&m.count.lost, "event %d came instead of %d: %.200s", i, next, lines.Bytes())
		}
		next = i + 1
	}
	if next < m.herd.events {
		m.count.note(&m.count.ended, "a watch ended: %v", lines.Err())
		return
	}
	m.count.complete.Add(1)
}

// eventOf returns the number of the ConfigMap in an event.
func eventOf(line []byte, label string) (int, bool) {
	_, rest, found := bytes.Cut(line, []byte(`"name":"`+label+"-"))
	number, _, ended := bytes.Cut(rest, []byte(`"`))
	i, err := strconv.Atoi(string(number))
	return i, found && ended && err == nil
}

// list returns where a watch goes on after the list, and the number of the first event that the list does not have.
func (m *member) list(ctx context.Context) (version string, next int, ok bool) {
	resp := m.get(ctx, url.Values{"resourceVersion": {"0"}})
	if resp == nil {
		return "", 0, false
	}
	defer resp.Body.Close()
	var all struct {
		Metadata metav1.ListMeta
		Items    []struct{}
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		m.count.note(&m.count.refused, "a list ended: %v", err)
		return "", 0, false
	}
	return all.Metadata.ResourceVersion, len(all.Items) - m.herd.objects, true
}

// get asks for the ConfigMaps of the herd. It retries after a 429 with Retry-After, as client-go does. It returns nil if the request was refused.
func (m *member) get(ctx context.Context, query url.Values) *http.Response {
	query.Set("labelSelector", "herd="+m.label)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.collection+"?"+query.Encode(), nil)
		if err != nil {
			m.count.note(&m.count.refused, "%v", err)
			return nil
		}
		resp, err := m.client.Do(req)
		if err != nil {
			m.count.note(&m.count.refused, "%v", err)
			return nil
		}
		if resp.StatusCode == http.StatusOK {
			return resp
		}
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		_ = resp.Body.Close() // it was read
		after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if resp.StatusCode != http.StatusTooManyRequests || err != nil {
			m.count.note(&m.count.refused, "%s: %s", resp.Status, text)
			return nil
		}
		m.count.askedToWait.Add(1)
		select {
		case <-time.After(time.Duration(after) * time.Second):
		case <-ctx.Done():
		}
	}
}

// newTokens returns tokens that no API server has seen before.
func newTokens(ctx context.Context, t *testing.T, admin kubernetes.Interface, n int) []string {
	t.Helper()
	var tokens []string
	for range n {
		issued, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		require.NoError(t, err)
		tokens = append(tokens, issued.Status.Token)
	}
	return tokens
}

// useTokens uses one token after the other, at the servers in turn.
func useTokens(ctx context.Context, t *testing.T, servers []*rest.Config, tokens []string, c *count) {
	for i, token := range tokens {
		server := rest.AnonymousClientConfig(servers[i%len(servers)])
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.Host+"/version", nil)
		if err != nil {
			c.note(&c.tokensRefused, "token: %v", err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := transportOf(t, server).Do(req)
		if err != nil {
			c.note(&c.tokensRefused, "token: %v", err)
			continue
		}
		if resp.StatusCode != http.StatusOK {
			c.note(&c.tokensRefused, "token: %s", resp.Status)
		}
		_ = resp.Body.Close() // only the status counts
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

// canRead returns a condition that holds when the API server answers a read.
func canRead(t *testing.T, config *rest.Config) func(context.Context) error {
	client := clientOf(t, config)
	return func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{Limit: 1})
		return err
	}
}

func addAccount(t *testing.T, config *rest.Config) {
	t.Helper()
	admin := clientOf(t, config)
	framework.Eventually(t, "the ServiceAccount exists", func(ctx context.Context) error {
		_, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}
