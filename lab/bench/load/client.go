// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// quotedBytes is how much of an answer an error quotes.
const quotedBytes = 400

// Client sends requests over HTTP/2 with the headers of client-go. It does as little work as possible, because it shares the machine with
// the server.
type Client struct {
	host, token string
	tls         *tls.Config
	connections []*http.Client
	next        atomic.Uint64
}

// Request is a request to an API server.
type Request struct {
	Method, Path string
	// Accept and ContentType are JSON if empty.
	Accept, ContentType string
	Body                []byte
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Code int
	Body string
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Code, e.Body) }

// NewClient returns a client that spreads its requests over some connections. config has the address and the credentials.
func NewClient(config *rest.Config, connections int) (*Client, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	c := &Client{host: config.Host, token: config.BearerToken, tls: tlsConfig}
	for range connections {
		c.connections = append(c.connections, c.connection())
	}
	return c, nil
}

// connection returns a client with one HTTP/2 connection, which its first request opens.
func (c *Client) connection() *http.Client {
	// Like client-go, the client asks for compressed answers. It does not decompress them.
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c.tls.Clone(), ForceAttemptHTTP2: true, DisableCompression: true}}
}

// Close closes the connections.
func (c *Client) Close() {
	for _, connection := range c.connections {
		connection.CloseIdleConnections()
	}
}

// Connect sends a request over each connection, so that all are open.
func (c *Client) Connect(ctx context.Context, r Request) error {
	for range c.connections {
		if err := c.Do(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// Do sends a request and reads the answer.
func (c *Client) Do(ctx context.Context, r Request) error {
	return c.discard(ctx, c.turn(), r)
}

// DoAlone sends a request over a connection of its own and reads the answer.
func (c *Client) DoAlone(ctx context.Context, r Request) error {
	connection := c.connection()
	defer connection.CloseIdleConnections()
	return c.discard(ctx, connection, r)
}

// Read sends a request that does not ask for compression and returns the answer.
func (c *Client) Read(ctx context.Context, r Request) ([]byte, error) {
	response, err := c.send(ctx, c.turn(), r, "identity")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // what counts is what was read
	return io.ReadAll(response.Body)
}

// Stream sends the request of a watch, and returns the answer while it arrives.
func (c *Client) Stream(ctx context.Context, r Request) (io.ReadCloser, error) {
	response, err := c.send(ctx, c.turn(), r, "gzip")
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

func (c *Client) turn() *http.Client {
	return c.connections[c.next.Add(1)%uint64(len(c.connections))]
}

var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

func (c *Client) discard(ctx context.Context, connection *http.Client, r Request) error {
	response, err := c.send(ctx, connection, r, "gzip")
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // what counts is what was read
	buffer := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buffer)
	for {
		if _, err := response.Body.Read(buffer[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("cannot read the answer: %w", err)
		}
	}
}

func (c *Client) send(ctx context.Context, connection *http.Client, r Request, encoding string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, r.Method, c.host+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{
		"Accept":          {cmp.Or(r.Accept, "application/json")},
		"Accept-Encoding": {encoding},
		"User-Agent":      {"bench/v1 (linux/amd64) kubernetes/$Format"},
	}
	if len(r.Body) > 0 {
		request.Header["Content-Type"] = []string{cmp.Or(r.ContentType, "application/json")}
	}
	if c.token != "" {
		request.Header["Authorization"] = []string{"Bearer " + c.token}
	}
	response, err := connection.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close() //nolint:errcheck // what counts is what was read
	body, err := io.ReadAll(io.LimitReader(response.Body, quotedBytes))
	return nil, errors.Join(&StatusError{Code: response.StatusCode, Body: string(body)}, err)
}
