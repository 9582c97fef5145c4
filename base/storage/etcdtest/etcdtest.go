// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdtest runs an etcd of one member inside a test, which elects itself at once.
package etcdtest

import (
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
)

// starting is held until an etcd has the ports that were chosen for it.
var starting sync.Mutex

// Start starts an etcd, which ends with the test.
func Start(t testing.TB) *clientv3.Client {
	t.Helper()
	starting.Lock()
	defer starting.Unlock()
	config := testserver.NewTestConfig(t)
	config.TickMs, config.ElectionMs = 10, 100
	return testserver.RunEtcd(t, config).Client
}
