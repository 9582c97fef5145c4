// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package introspection compares what a stock kube-apiserver and Tripod tell about themselves, to whom, and how Tripod tells
// about each of its services.
package introspection

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

var (
	environment *framework.Environment
	stock       *framework.Cluster
	// fleet is Tripod with two replicas of core.
	fleet *framework.Fleet
)

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) error {
		environment = env
		starting, ctx := errgroup.WithContext(ctx)
		starting.Go(func() error {
			started, err := env.StartStock(ctx, framework.StockOptions{})
			if err == nil {
				stock = started.Cluster
			}
			return err
		})
		starting.Go(func() (err error) {
			fleet, err = startFleet(ctx, env, framework.ReplicaOptions{Name: "core-0"}, framework.ReplicaOptions{Name: "core-1"},
				framework.ReplicaOptions{Name: "extensions-0"}, framework.ReplicaOptions{Name: "aggregator-0"})
			return err
		})
		return starting.Wait()
	})
}

func startFleet(ctx context.Context, env *framework.Environment, replicas ...framework.ReplicaOptions) (*framework.Fleet, error) {
	etcd, err := env.StartEtcd(ctx, env.Dir)
	if err != nil {
		return nil, err
	}
	return env.StartFleet(ctx, framework.FleetOptions{EtcdURL: etcd, Replicas: replicas})
}

// The users that ask. The monitor is who may read what kube-apiserver tells about itself.
const (
	admin     = "admin"
	anonymous = "anonymous"
	nobody    = "nobody"
	monitor   = "monitor"
)

var users = []string{admin, anonymous, nobody, monitor}

// clients by cluster and user.
var clients sync.Map

func clientOf(t *testing.T, cluster *framework.Cluster, user string) *http.Client {
	t.Helper()
	key := cluster.URL + " " + user
	if known, ok := clients.Load(key); ok {
		return known.(*http.Client)
	}
	config, err := configOf(cluster, user)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	clients.Store(key, client)
	return client
}

func configOf(cluster *framework.Cluster, user string) (*rest.Config, error) {
	switch user {
	case admin:
		return cluster.Admin(), nil
	case anonymous:
		return cluster.Anonymous(), nil
	case monitor:
		return cluster.UserConfig(monitor, "system:monitoring")
	}
	return cluster.UserConfig(user)
}

// answer is what a server says.
type answer struct {
	code        int
	contentType string
	body        string
}

// request is sent as it is; header may be nil.
type request struct {
	method, path, body string
	header             http.Header
}

func get(path string) request { return request{method: http.MethodGet, path: path} }

func (r request) String() string { return r.method + " " + r.path }

func ask(t *testing.T, cluster *framework.Cluster, user string, r request) answer {
	t.Helper()
	// Some ask when the test is over.
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), r.method, cluster.URL+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	if r.header != nil {
		req.Header = r.header.Clone()
	}
	resp, err := clientOf(t, cluster, user).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, resp)
}

func read(t *testing.T, resp *http.Response) answer {
	t.Helper()
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), string(body)}
}
