// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Etcd returns a client of an etcd that [Environment.StartEtcd] started. The client closes with the test.
func Etcd(t testing.TB, url string) *clientv3.Client {
	t.Helper()
	config, err := plainEtcd(url)(t.Context())
	require.NoError(t, err)
	client, err := clientv3.New(config)
	require.NoError(t, err, "cannot make a client for etcd")
	t.Cleanup(func() { client.Close() }) //nolint:errcheck // nothing is pending
	return client
}

// Stored returns the content of an etcd under the keys that begin with prefix.
func Stored(ctx context.Context, etcd *clientv3.Client, prefix string) (map[string][]byte, error) {
	answer, err := etcd.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("cannot read etcd: %w", err)
	}
	stored := make(map[string][]byte, len(answer.Kvs))
	for _, pair := range answer.Kvs {
		stored[string(pair.Key)] = pair.Value
	}
	return stored, nil
}
