// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/base/hop/envelope"
)

func TestEventsAreForwardedOneByOne(t *testing.T) {
	next := make(chan string)
	server := front(t, jane, func(w http.ResponseWriter, _ *http.Request) {
		for event := range next {
			_, _ = io.WriteString(w, event+"\n") // the client waits for it
			w.(http.Flusher).Flush()
		}
	})
	defer close(next)
	go func() { next <- "first" }()
	resp, err := http.Get(server.URL + "/api/v1/pods?watch=true")
	require.NoError(t, err)
	defer resp.Body.Close()
	events := bufio.NewScanner(resp.Body)
	for _, want := range []string{"first", "second"} {
		if !events.Scan() || events.Text() != want {
			t.Fatalf("event %q, error %v", events.Text(), events.Err())
		}
		if want == "first" {
			next <- "second"
		}
	}
}

func TestAWatchEndsWithoutAnErrorWhenItsServerGoesAway(t *testing.T) {
	breaksOff := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "event\n") // the client reads it
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	const things = "/apis/third.example.com/v1/things"
	for name, test := range map[string]struct {
		front  *httptest.Server
		path   string
		broken bool
	}{
		"a watch of a backend":                    {front(t, jane, breaksOff), "/api/v1/pods?watch=1", false},
		"another request to a backend":            {front(t, jane, breaksOff), forOthers, true},
		"a watch of an aggregated server":         {frontOfAggregated(t, breaksOff), things + "?watch=1", false},
		"another request to an aggregated server": {frontOfAggregated(t, breaksOff), things + "?", true},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := http.Get(test.front.URL + test.path)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if string(body) != "event\n" || (err != nil) != test.broken {
				t.Errorf("body %q, error %v; want an error: %v", body, err, test.broken)
			}
		})
	}
}

func TestUpgradedConnectionsPassInBothDirections(t *testing.T) {
	expectEcho(t, front(t, jane, func(w http.ResponseWriter, req *http.Request) {
		if e, err := envelope.Decode(req.Header.Get(envelope.Header)); err != nil || e.GetUser().GetName() != "jane" {
			t.Errorf("sender is %v, %v", e, err)
		}
		echo(t, w, "SPDY/3.1")
	}), "/exec", "Upgrade: SPDY/3.1")
}

func TestATunnelToAnAggregatedServerTriesAnotherEndpoint(t *testing.T) {
	front := frontOfAggregated(t, func(w http.ResponseWriter, req *http.Request) {
		assert.Equal(t, []string{"jane"}, req.Header.Values("X-Remote-User"))
		assert.Equal(t, "192.0.2.1, 127.0.0.1", req.Header.Get("X-Forwarded-For"))
		assert.Equal(t, "key", req.Header.Get("Sec-Websocket-Key"))
		echo(t, w, "websocket")
	}, connectionstest.ClosedAddress(t), connectionstest.ClosedAddress(t))
	for range 5 {
		expectEcho(t, front, "/exec?a=b", "Upgrade: websocket", "Sec-WebSocket-Key: key", "X-Remote-User: root", "X-Forwarded-For: 192.0.2.1")
	}
}

// echo switches to another protocol, and sends back what comes.
func echo(t *testing.T, w http.ResponseWriter, protocol string) {
	conn, buffer, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+"\r\n\r\n")
	_, _ = io.Copy(conn, buffer) // the client reads its echo
}

// expectEcho expects an echo on a connection that such a request has upgraded.
func expectEcho(t *testing.T, server *httptest.Server, uri string, headers ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // nothing is buffered
	_, err = io.WriteString(conn, "POST "+uri+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"+strings.Join(headers, "\r\n")+"\r\n\r\n")
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	_, err = io.WriteString(conn, "ping\n")
	require.NoError(t, err)
	back, err := reader.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "ping\n", back)
}

func TestATunnelIsNotRedirected(t *testing.T) {
	front := serve(t, jane, third(redirecting("https://evil.example.com/"), apiregistrationv1.ConditionTrue))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/exec", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusInternalServerError || resp.Header.Get("Location") != "" {
		t.Errorf("got %s to %q", resp.Status, resp.Header.Get("Location"))
	}
}

// redirecting is an API server that sends clients elsewhere.
type redirecting string

func (r redirecting) Ready() bool { return true }

func (r redirecting) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "307 Temporary Redirect", StatusCode: http.StatusTemporaryRedirect,
		Header: http.Header{"Location": {string(r)}}, Body: http.NoBody,
	}, nil
}
