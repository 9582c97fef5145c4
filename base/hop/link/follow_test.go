// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// core is a replica that sends its name in watches, which do not end.
type core struct {
	name    string
	unready atomic.Bool
}

func (c *core) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/readyz" {
		if c.unready.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return
	}
	_, _ = io.WriteString(w, c.name)
	w.(http.Flusher).Flush()
	<-req.Context().Done()
}

func TestAWatchMovesToAReplicaThatIsReady(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	replicas := []*core{{name: "a"}, {name: "b"}}
	var servers []addresses.Location
	for _, replica := range replicas {
		server := httptest.NewUnstartedServer(replica)
		server.TLS = pki.ServerConfig(t, trust.ServerName("core"))
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.Close)
		at, err := addresses.OfServer(server.URL)
		require.NoError(t, err)
		servers = append(servers, at)
	}
	link := New("core", servers, trust.Options{CAFile: pki.CAFile, CertFile: pki.CertFile, KeyFile: pki.KeyFile})
	client, err := rest.HTTPClientFor(link.Config(Wait))
	require.NoError(t, err)
	go link.FollowReplicas(t.Context())
	watch := func() io.ReadCloser {
		t.Helper()
		resp, err := client.Get("https://core/?watch=true")
		require.NoError(t, err)
		return resp.Body
	}
	output := func(body io.Reader) string {
		t.Helper()
		all := &strings.Builder{}
		_, err := io.Copy(all, body)
		require.NoError(t, err, "the watch ends as if the replica had ended it")
		return all.String()
	}
	first := watch()
	replicas[0].unready.Store(true)
	assert.Equal(t, "a", output(first))
	require.NoError(t, first.Close())

	// At first no replica is ready, then only the first.
	second := watch()
	replicas[1].unready.Store(true)
	replicas[0].unready.Store(false)
	assert.Equal(t, "b", output(second))
	require.NoError(t, second.Close())
	third, name := watch(), make([]byte, 1)
	_, err = io.ReadFull(third, name)
	require.NoError(t, err)
	assert.Equal(t, "a", string(name))
	require.NoError(t, third.Close())
}

func TestAReplicaThatIsReadyAndAloneIsSeldomProbed(t *testing.T) {
	a, b := addresses.Location{Host: "127.0.0.1", Port: "1"}, addresses.Location{Host: "127.0.0.1", Port: "2"}
	link := New("core", []addresses.Location{a}, trust.Options{})
	host := link.hosts()[0]
	now := time.Now()
	assert.True(t, link.mustProbe(host, now), "it was never ready")
	link.replicas.probed(host, true, false)
	assert.False(t, link.mustProbe(host, now), "it is ready and alone")
	assert.True(t, link.mustProbe(host, now.Add(-aloneInterval)), "the last probe was long ago")
	link.replicas.probed(host, false, false)
	assert.True(t, link.mustProbe(host, now), "it is not ready any more")
	link.replicas.probed(host, true, false)
	link.SetServers([]addresses.Location{a, b})
	require.Len(t, link.hosts(), 2)
	assert.True(t, link.mustProbe(host, now), "there is another")
}

// A single address may be a load balancer, so the link makes another connection after an error. It does not after 429.
func TestWatchesOfABusyReplicaGoOn(t *testing.T) {
	for status, goesOn := range map[int]bool{http.StatusTooManyRequests: true, http.StatusInternalServerError: false} {
		pki := connectionstest.NewPKI(t)
		more := make(chan struct{})
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if !req.URL.Query().Has("watch") {
				w.WriteHeader(status)
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-more:
				_, _ = io.WriteString(w, "more")
			case <-req.Context().Done():
			}
		}))
		server.TLS = pki.ServerConfig(t, trust.ServerName("core"))
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.Close)
		at, err := addresses.OfServer(server.URL)
		require.NoError(t, err)
		link := New("core", []addresses.Location{at}, trust.Options{CAFile: pki.CAFile, CertFile: pki.CertFile, KeyFile: pki.KeyFile})
		link.follows.Store(true)
		client, err := rest.HTTPClientFor(link.Config(Wait))
		require.NoError(t, err)
		watch, err := client.Get("https://core/?watch=true")
		require.NoError(t, err)
		read, err := client.Get("https://core/")
		require.NoError(t, err)
		require.NoError(t, read.Body.Close())
		if goesOn {
			close(more)
		}
		all, err := io.ReadAll(watch.Body)
		require.NoError(t, err)
		assert.Equal(t, goesOn, string(all) == "more", "after %d", status)
		require.NoError(t, watch.Body.Close())
	}
}
