// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package introspection compares what a stock kube-apiserver and Tripod report about themselves, to which users, and how Tripod
// reports on each of its services.
package introspection

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

var (
	environment *framework.Environment
	// stock and tested are what tests compare. tested is the fleet, unless there is none.
	stock, tested *both.Side
	// fleet is Tripod with two replicas of core.
	fleet *framework.Fleet
)

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) error {
		environment = env
		sides, err := both.Start(ctx, func(ctx context.Context, tripod bool) (*both.Side, error) {
			if !tripod {
				server, err := env.StartStock(ctx, framework.StockOptions{})
				if err != nil {
					return nil, err
				}
				return newSide(server.Cluster), nil
			}
			var err error
			fleet, err = env.StartFleet(ctx, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
				{Name: "core-0"}, {Name: "core-1"}, {Name: "extensions-0"}, {Name: "aggregator-0"},
			}})
			if err != nil {
				return nil, err
			}
			return newSide(fleet.Cluster), nil
		})
		stock, tested = sides[0], sides[1]
		return err
	})
}

// The users that ask. The monitor may read what kube-apiserver reports about itself.
const (
	admin     = "admin"
	anonymous = "anonymous"
	nobody    = "nobody"
	monitor   = "monitor"
)

var users = []string{admin, anonymous, nobody, monitor}

func newSide(cluster *framework.Cluster) *both.Side {
	return both.NewSide(cluster, map[string]both.User{
		admin: both.Admin, anonymous: both.Anonymous, nobody: both.Certificate(nobody), monitor: both.Certificate(monitor, "system:monitoring"),
	})
}

// answer is what a server answers.
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

func ask(t *testing.T, side *both.Side, user string, r request) answer {
	t.Helper()
	// Some ask when the test is over.
	resp, err := side.Open(context.WithoutCancel(t.Context()), both.Request{User: user, Method: r.method, Path: r.path, Header: r.header, Body: []byte(r.body)})
	require.NoError(t, err)
	return read(t, resp)
}

func read(t *testing.T, resp *http.Response) answer {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), string(body)}
}
