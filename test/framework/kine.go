// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Kine is the database below every store of a run that has kine in place of etcd, as TEST_KINE sets: "sqlite", or the URL of a PostgreSQL
// server, such as postgres://postgres@127.0.0.1:5432, on which each kine makes a database of its own. It is empty with etcd.
func Kine() string { return os.Getenv("TEST_KINE") }

// kineCommand returns a kine with its data and log in dir, and its URL.
func (e *Environment) kineCommand(dir string) (string, Command, error) {
	port, err := FreePort()
	if err != nil {
		return "", Command{}, err
	}
	if err := mkdir(filepath.Join(dir, "kine")); err != nil {
		return "", Command{}, err
	}
	endpoint := "sqlite://" + filepath.Join(dir, "kine", "state.db") + "?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate"
	if Kine() != "sqlite" {
		server, err := url.Parse(Kine())
		if err != nil || server.Scheme != "postgres" {
			return "", Command{}, errors.Join(fmt.Errorf("TEST_KINE=%s is neither sqlite nor the URL of a PostgreSQL server", Kine()), err)
		}
		endpoint = server.JoinPath(fmt.Sprintf("kine_%d", time.Now().UnixNano())).String()
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	return "http://" + address, Command{
		Name: "kine", Path: e.Binary("test-assets/kine"), Dir: dir,
		Args: []string{"--listen-address=tcp://" + address, "--endpoint=" + endpoint, "--metrics-bind-address=0"},
	}, nil
}

// answers returns a condition that a store with etcd's API answers. kine has no /health.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		config, err := plainEtcd(url)(ctx)
		if err != nil {
			return err
		}
		client, err := clientv3.New(config)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		_, err = client.Get(ctx, "health")
		return err
	}
}

// kineOf returns the URL of a kine that it starts for a `tripod up` that names no store. It is empty in a run with etcd.
func (e *Environment) kineOf(ctx context.Context, dir string, args []string) (string, error) {
	if Kine() == "" || slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--etcd-servers") }) {
		return "", nil
	}
	return e.StartEtcd(ctx, dir)
}
