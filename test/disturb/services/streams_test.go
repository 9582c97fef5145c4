// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// shortTimeout is --request-timeout of the service with streams and of the aggregator in front of it.
	shortTimeout = "1s"
	// cut is the time after which that aggregator has cut all requests with a deadline: 10 s after the service.
	cut = 12 * time.Second
)

// streams is the path of a service with long-running subresources. Tests build it.
var streams string

// startStreams starts the service and the aggregator, and returns the path of an object and a client for each protocol.
func startStreams(t *testing.T) (path string, http1, http2 *http.Client) {
	t.Helper()
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	framework.BuildAlone(t, root, "examples/wardle", "./testdata/streams", streams)
	require.NoError(t, startAll(t.Context(), "streams-0", "aggregator-2"))
	t.Cleanup(func() {
		assert.NoError(t, fleet.Replica("aggregator-2").Stop())
	})
	resource := schema.GroupVersionResource{Group: "streams.example.com", Version: "v1", Resource: "flunders"}
	awaitOwner(t, resource, "streams")
	cluster := fleet.Through("aggregator-2")
	framework.Eventually(t, "the aggregator knows the service", func(context.Context) error { return hasResource(cluster.Admin(), resource) })
	of := func(protocol string) *http.Client {
		config := cluster.Admin()
		config.TLSClientConfig.NextProtos = []string{protocol}
		client, err := rest.HTTPClientFor(config)
		require.NoError(t, err)
		return client
	}
	return cluster.Admin().Host + "/apis/streams.example.com/v1/flunders/one", of("http/1.1"), of("h2")
}

// open sends a request, and returns the answer.
func open(t *testing.T, client *http.Client, url string, header http.Header) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the aggregator may hold back an answer that it expects to end
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header = header
	resp, err := client.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// readTicks reads a stream until it has lasted for a time, and returns how long it has lasted.
func readTicks(lines *bufio.Scanner, until time.Duration) (lasted time.Duration, err error) {
	for lines.Scan() {
		if lasted, err = time.ParseDuration(lines.Text()); err != nil || lasted > until {
			return lasted, err
		}
	}
	return lasted, fmt.Errorf("it ended after %v: %w", lasted, lines.Err())
}

func TestWhatAServiceDeclaresLasts(t *testing.T) {
	path, http1, http2 := startStreams(t)
	tunnels := map[string]io.ReadWriteCloser{}
	for _, protocol := range []string{"websocket", "SPDY/3.1"} {
		resp := open(t, http1, path+"/console", http.Header{"Connection": {"Upgrade"}, "Upgrade": {protocol}})
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode, protocol)
		tunnels[protocol] = resp.Body.(io.ReadWriteCloser)
	}
	echo := func() {
		t.Helper()
		for protocol, tunnel := range tunnels {
			_, err := io.WriteString(tunnel, protocol)
			require.NoError(t, err, protocol)
			answer := make([]byte, len(protocol))
			_, err = io.ReadFull(tunnel, answer)
			require.NoError(t, err, protocol)
			require.Equal(t, protocol, string(answer))
		}
	}
	echo()
	streams := map[string]*bufio.Scanner{}
	for protocol, client := range map[string]*http.Client{"HTTP/1.1": http1, "HTTP/2.0": http2} {
		resp := open(t, client, path+"/ticks", nil)
		require.Equal(t, http.StatusOK, resp.StatusCode, protocol)
		require.Equal(t, protocol, resp.Proto)
		streams[protocol] = bufio.NewScanner(resp.Body)
	}
	slow := open(t, http2, path+"/slow", nil)
	if slow.StatusCode == http.StatusOK {
		lasted, err := readTicks(bufio.NewScanner(slow.Body), cut)
		require.Error(t, err, "a request that is not declared lasts for %v", lasted)
	} else {
		require.GreaterOrEqual(t, slow.StatusCode, http.StatusInternalServerError)
	}
	for protocol, stream := range streams {
		_, err := readTicks(stream, cut)
		require.NoError(t, err, protocol)
	}
	echo()

	// The service ends them when it stops, and need not be killed.
	require.NoError(t, fleet.Replica("streams-0").Stop())
	for protocol, stream := range streams {
		_, err := readTicks(stream, time.Hour)
		require.Error(t, err, protocol)
	}
	for protocol, tunnel := range tunnels {
		rest, err := io.ReadAll(tunnel)
		require.NoError(t, err, protocol)
		assert.Empty(t, rest, protocol)
	}
}
