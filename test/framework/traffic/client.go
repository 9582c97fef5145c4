// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// giveUp ends a wait that would never end; it says nothing about how fast anything is.
const giveUp = time.Minute

// Client sends requests to one address, over several HTTP/2 connections. Unlike client-go, it never retries.
type Client struct {
	url         string
	config      *rest.Config
	connections atomic.Pointer[[]*http.Client]
	next        atomic.Uint64
	// Timeout is the timeout of a request, by default a minute.
	Timeout time.Duration
}

// NewClient returns a client with a number of connections.
func NewClient(t testing.TB, config *rest.Config, connections int) *Client {
	t.Helper()
	c, err := Dial(config, connections)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// Dial is NewClient for a program that is not a test. As in client-go, a client leaves a connection whose pings get no answer.
func Dial(config *rest.Config, connections int) (*Client, error) {
	c := &Client{url: config.Host, config: config}
	return c, c.connect(connections)
}

// Reconnect has new requests use new connections, and reads the files of the configuration again. Requests that are under way finish
// on the old ones.
func (c *Client) Reconnect() error {
	old := *c.connections.Load()
	if err := c.connect(len(old)); err != nil {
		return err
	}
	closeIdle(old)
	return nil
}

// connect replaces the connections.
func (c *Client) connect(count int) error {
	var connections []*http.Client
	for range count {
		tls, err := rest.TLSConfigFor(c.config)
		if err != nil {
			return err
		}
		var transport http.RoundTripper = &http.Transport{
			TLSClientConfig: tls, ForceAttemptHTTP2: true, DisableCompression: true,
			HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		}
		if c.config.WrapTransport != nil {
			transport = c.config.WrapTransport(transport)
		}
		connections = append(connections, &http.Client{Transport: transport})
	}
	c.connections.Store(&connections)
	return nil
}

// Close closes idle connections.
func (c *Client) Close() { closeIdle(*c.connections.Load()) }

func closeIdle(connections []*http.Client) {
	for _, connection := range connections {
		connection.CloseIdleConnections()
	}
}

// connection returns the connections in turn.
func (c *Client) connection() *http.Client {
	connections := *c.connections.Load()
	return connections[c.next.Add(1)%uint64(len(connections))]
}

// Answer is the answer to a request, and when the request began and ended.
type Answer struct {
	Code         int
	Header       http.Header
	Body         []byte
	Began, Ended time.Time
}

// Send sends a request and reads the answer. It returns an error only if there is no complete answer.
func (c *Client) Send(ctx context.Context, method, path string, body []byte) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, giveUp))
	defer cancel()
	a := Answer{Began: time.Now()}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.connection().Do(req)
	if err == nil {
		defer resp.Body.Close() //nolint:errcheck // it was only read
		a.Code, a.Header = resp.StatusCode, resp.Header
		a.Body, err = io.ReadAll(resp.Body)
	}
	a.Ended = time.Now()
	return a, err
}

// Expect returns an error unless the status is one of codes.
func (a Answer) Expect(codes ...int) error {
	for _, code := range codes {
		if a.Code == code {
			return nil
		}
	}
	return fmt.Errorf("status %d: %s", a.Code, a.Body)
}

// Await sends GETs until one has the status code.
func (c *Client) Await(t testing.TB, what, path string, code int) Answer {
	t.Helper()
	var answer Answer
	framework.Eventually(t, what, func(ctx context.Context) error {
		var err error
		if answer, err = c.Send(ctx, http.MethodGet, path, nil); err == nil {
			err = answer.Expect(code)
		}
		return err
	})
	return answer
}

// Need sends a request that must succeed.
func (c *Client) Need(t testing.TB, method, path string, body []byte) Object {
	t.Helper()
	a, err := c.Send(t.Context(), method, path, body)
	if err = errors.Join(err, a.Expect(http.StatusOK, http.StatusCreated)); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	o, err := Decode(a.Body)
	require.NoError(t, err)
	return o
}
