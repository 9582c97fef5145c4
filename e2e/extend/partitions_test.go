// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package extend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
	"github.com/tripod-k8s/tripod/test/framework/tutorial"
)

// The sections of docs/partitions.md, and what the page uses.
const (
	divide, moveAway, moveBack, remove = "In a cluster", "Move a group to the etcd of its partition", "Move it back", "Remove the partition"

	boatKeys = "/registry/team.example.org/boats/"
	// written is how many boats the page creates.
	written = 120
	// sharedEtcd and ownEtcd are the addresses of the page's port-forwards.
	sharedEtcd, ownEtcd = "https://127.0.0.1:12379", "https://127.0.0.1:13379"
)

var boats = traffic.Resource{Kind: "Boat", Plural: "boats", Version: "team.example.org/v1", Prefix: "/apis/team.example.org/v1"}

// TestPartitions divides the release, moves a group to an etcd of its own, and back, while clients use it, and removes the partition.
func TestPartitions(t *testing.T) {
	require.NoError(t, env.Volume(t.Context(), "tripod-partition"))
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	environment := tutorial.Environment(t, map[string]string{
		"kubectl": `exec tripod kubectl "$@"`, "helm": `exec "$TRIPOD/bin/tools/helm" "$@"`,
	})
	reader := tutorial.NewReader(t, append(environment, "KUBECONFIG="+env.Cluster.Kubeconfig))
	follow := func(section string) {
		blocks, err := tutorial.Read(filepath.Join(root, "docs", "partitions.md"), section, section)
		require.NoError(t, err)
		reader.Follow(blocks)
	}
	follow(divide)
	// An aggregator with the former lists, which helm no longer waits for, sends the group to replicas that answer 503.
	for _, service := range release.Services {
		require.NoError(t, tripod.Settled(t.Context(), service))
	}
	clients := startClients(t)
	follow(moveAway)
	assert.Zero(t, count(t, reader.Dir, sharedEtcd, "etcd"), "boats in the etcd of extensions after the move")
	assert.GreaterOrEqual(t, count(t, reader.Dir, ownEtcd, "etcd-extensions-big"), int64(written), "boats in the etcd of the partition after the move")
	follow(moveBack)
	assert.GreaterOrEqual(t, count(t, reader.Dir, sharedEtcd, "etcd"), int64(written), "boats in the etcd of extensions after the way back")
	assert.Zero(t, count(t, reader.Dir, ownEtcd, "etcd-extensions-big"), "boats in the etcd of the partition after the way back")
	clients.end(t)
	follow(remove)
}

// clients read and write boats and ConfigMaps.
type clients struct {
	ofBoats, ofConfigMaps []*traffic.Worker
	stop                  context.CancelFunc
	running               sync.WaitGroup
}

func startClients(t *testing.T) *clients {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &clients{stop: stop}
	t.Cleanup(c.wait)
	client := traffic.NewClient(t, tripod.Admin(), 4)
	for i := range 4 {
		c.ofBoats = append(c.ofBoats, traffic.NewWorker(client, boats, "default", i))
		c.ofConfigMaps = append(c.ofConfigMaps, traffic.NewWorker(client, traffic.ConfigMaps, "default", i))
	}
	for _, worker := range slices.Concat(c.ofBoats, c.ofConfigMaps) {
		c.running.Go(func() { worker.Run(ctx, 200*time.Millisecond) })
	}
	return c
}

func (c *clients) wait() {
	c.stop()
	c.running.Wait()
}

// end stops the clients. Their reads must have succeeded, and no acknowledged write may be lost. Writes of boats may have been refused while a move
// paused them, and once after it, because a move gives objects new resourceVersions.
func (c *clients) end(t *testing.T) {
	t.Helper()
	c.wait()
	paused, requests := 0, 0
	for _, worker := range c.ofBoats {
		requests += len(worker.Spans)
		for _, failure := range worker.Failures {
			switch {
			case failure.Wrong && isOnlyNewer(failure):
			case !failure.Reads() && failure.Code == http.StatusConflict:
			case !failure.Reads() && failure.Code == http.StatusServiceUnavailable:
				paused++
			default:
				t.Error(failure)
			}
		}
	}
	for _, worker := range c.ofConfigMaps {
		for _, failure := range worker.Failures {
			t.Error(failure)
		}
	}
	t.Logf("%d of %d requests for boats got 503", paused, requests)
	assert.Greater(t, requests, 2*paused, "requests for boats")
	lost, err := traffic.Lost(t.Context(), slices.Concat(c.ofBoats, c.ofConfigMaps))
	require.NoError(t, err)
	assert.Empty(t, lost, "acknowledged writes that are lost")
}

// isOnlyNewer reports whether an object was read with the value that was written last, and another resourceVersion.
func isOnlyNewer(f traffic.Failure) bool {
	wrote, got, _ := strings.Cut(f.Err.Error(), " is read as ")
	value, _, _ := strings.Cut(wrote, "@")
	return strings.HasPrefix(got, value+"@")
}

// count returns the number of boats in an etcd, by the certificates that the page has put into a folder.
func count(t *testing.T, folder, server, name string) int64 {
	t.Helper()
	file := func(suffix string) string { return filepath.Join(folder, name+"-"+suffix) }
	pair, err := tls.LoadX509KeyPair(file("tls.crt"), file("tls.key"))
	require.NoError(t, err)
	authority, err := os.ReadFile(file("ca.crt"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority), "%s has no CA", name)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{server}, Logger: zap.NewNop(), DialTimeout: 20 * time.Second,
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12},
	})
	require.NoError(t, err)
	defer client.Close()
	answer, err := client.Get(t.Context(), boatKeys, clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return answer.Count
}
