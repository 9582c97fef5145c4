// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// client sends requests through one address, over HTTP/2 on several connections. Unlike client-go it repeats none whatever
// the answer is.
type client struct {
	url         string
	connections []*http.Client
	next        atomic.Uint64
}

func newClient(t testing.TB, cluster *framework.Cluster, connections int) *client {
	t.Helper()
	config := cluster.Admin()
	c := &client{url: config.Host}
	for range connections {
		tls, err := rest.TLSConfigFor(config)
		transport := &http.Transport{TLSClientConfig: must(t, tls, err), ForceAttemptHTTP2: true, DisableCompression: true}
		t.Cleanup(transport.CloseIdleConnections)
		c.connections = append(c.connections, &http.Client{Transport: transport})
	}
	return c
}

// connection returns one connection after the other.
func (c *client) connection() *http.Client {
	return c.connections[c.next.Add(1)%uint64(len(c.connections))]
}

// answer is what there is to say about an answer.
type answer struct {
	code         int
	header       http.Header
	body         []byte
	began, ended time.Time
}

// send sends a request and reads the answer. An error is about the connection.
func (c *client) send(ctx context.Context, method, path string, body []byte) (answer, error) {
	return sendBy(ctx, c.connection(), method, c.url+path, body)
}

func sendBy(ctx context.Context, client *http.Client, method, url string, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	a := answer{began: time.Now()}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		a.code, a.header = resp.StatusCode, resp.Header
		a.body, err = io.ReadAll(resp.Body)
	}
	a.ended = time.Now()
	return a, err
}

// expect returns an error that says what a request got instead of a code.
func (a answer) expect(codes ...int) error {
	for _, code := range codes {
		if a.code == code {
			return nil
		}
	}
	return fmt.Errorf("status %d: %s", a.code, a.body)
}

// need sends a request that nothing should be wrong with.
func (c *client) need(t testing.TB, method, path string, body []byte) object {
	t.Helper()
	a, err := c.send(t.Context(), method, path, body)
	if err = errors.Join(err, a.expect(http.StatusOK, http.StatusCreated)); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	o, err := decode(a.body)
	return must(t, o, err)
}
