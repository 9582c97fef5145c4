// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/services/search/crds"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/test/framework"
)

// members are the kube-apiservers that both copy.
const members = 2

// postgresSettings are those of both. Everything else is PostgreSQL's default.
var postgresSettings = []string{"shared_buffers=1GB", "max_connections=200", "max_wal_size=4GB"}

// bench has what both sides share.
type benchmark struct {
	*options
	environment *framework.Environment
	postgres    *storetest.Server
}

func newBench(o *options) (*benchmark, error) {
	environment, err := framework.New("bench-search")
	if err != nil {
		return nil, err
	}
	postgres, err := storetest.StartPostgresIn(o.data, postgresSettings...)
	if err != nil {
		return nil, errors.Join(err, environment.Close(true))
	}
	return &benchmark{o, environment, postgres}, nil
}

func (b *benchmark) close(failed bool) error {
	err := b.environment.Close(failed)
	b.postgres.Admin.Close() //nolint:errcheck // the server ends
	b.postgres.Stop()
	return err
}

// database makes an empty database, and returns how to ask it.
func (b *benchmark) database(name string) (*sql.DB, error) {
	if err := b.drop(name); err != nil { // one of an earlier run
		return nil, err
	}
	if _, err := b.postgres.Admin.Exec("CREATE DATABASE " + name); err != nil {
		return nil, err
	}
	return sql.Open("pgx", b.postgres.URL(name))
}

// drop removes a database.
func (b *benchmark) drop(name string) error {
	_, err := b.postgres.Admin.Exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
	return err
}

// hub is a kube-apiserver with the definitions of Clusterpedia's kinds, which configures what a side copies.
func (b *benchmark) hub(ctx context.Context) (*framework.Stock, dynamic.Interface, error) {
	hub, err := b.environment.StartStock(ctx, framework.StockOptions{})
	if err != nil {
		return nil, nil, err
	}
	client, err := dynamic.NewForConfig(hub.Admin())
	if err != nil {
		return nil, nil, err
	}
	return hub, client, crds.Apply(ctx, client)
}

// postgresCPU returns the processor time of PostgreSQL, of connections that are gone too.
func (b *benchmark) postgresCPU() (time.Duration, error) {
	return process.Process{Service: "postgres", PID: b.postgres.PID}.FamilyCPU()
}

// until waits for a condition, which is asked twenty times a second.
func until(ctx context.Context, what string, limit time.Duration, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		ok, err := condition()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func ctxRest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// write writes a file for a process to read.
func (b *benchmark) write(name, text string) (string, error) {
	path := filepath.Join(b.environment.Dir, name)
	return path, os.WriteFile(path, []byte(strings.TrimSpace(text)+"\n"), 0o600)
}
