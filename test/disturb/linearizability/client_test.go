// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package linearizability

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// requestTimeout is how long a client waits for an answer. It is shorter than a pause of a replica, so that some writes take place after
// their clients have given up.
const requestTimeout = 3 * time.Second

// client sends each request through an aggregator that it picks at random, and repeats none.
type client struct {
	random *rand.Rand
	paths  []way
}

// way is the way to one aggregator.
type way struct {
	url string
	*http.Client
}

func newClient(t testing.TB, random *rand.Rand, aggregators []*framework.Cluster) *client {
	t.Helper()
	c := &client{random: random}
	for _, aggregator := range aggregators {
		config := aggregator.Admin()
		tls, err := rest.TLSConfigFor(config)
		require.NoError(t, err)
		transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		c.paths = append(c.paths, way{config.Host, &http.Client{Transport: transport}})
	}
	return c
}

// start sends a request, and returns when the answer begins.
func (c *client) start(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	to := c.paths[c.random.IntN(len(c.paths))]
	req, err := http.NewRequestWithContext(ctx, method, to.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return to.Do(req)
}

// errNotSent is that of a request that no server can have seen.
var errNotSent = errors.New("not sent")

// send sends a request. It returns an error where there is no whole answer.
func (c *client) send(ctx context.Context, method, path string, body []byte) (code int, answer object, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := c.start(ctx, method, path, body)
	if err != nil {
		if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
			err = fmt.Errorf("%w: %w", errNotSent, err)
		}
		return 0, object{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, object{}, err
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return resp.StatusCode, object{}, fmt.Errorf("%s: %q is no answer: %w", resp.Status, data, err)
	}
	return resp.StatusCode, answer, nil
}
