// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"fmt"
	"math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"

	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// ApplyMonitors lets the metric of the size of etcd (apiserver_storage_size_bytes) come from clients that do not wait for etcd. Those of
// kube-apiserver hold up a scrape of /metrics for 20 s while etcd does not answer: with 1.36 each time, with 1.37 until they have connected
// once. Then Prometheus would get no metrics of a replica exactly while etcd is away. Call it before RESTOptionsGetter is decorated.
func ApplyMonitors(config *genericapiserver.Config) error {
	if config.RESTOptionsGetter == nil {
		return nil
	}
	getter, ok := config.RESTOptionsGetter.(*genericoptions.StorageFactoryRestOptionsFactory)
	if !ok {
		return fmt.Errorf("cannot monitor etcd: storages are made by %T", config.RESTOptionsGetter)
	}
	monitors, err := newMonitors(getter.StorageFactory.Configs())
	if err == nil {
		metrics.SetStorageMonitorGetter(func() ([]metrics.Monitor, error) { return monitors, nil })
	}
	return err
}

func newMonitors(configs []storagebackend.Config) ([]metrics.Monitor, error) {
	var monitors []metrics.Monitor
	for i := range configs {
		client, err := dial(configs[i].Transport)
		if err != nil {
			return nil, err
		}
		monitors = append(monitors, &monitor{client: client, servers: configs[i].Transport.ServerList})
	}
	return monitors, nil
}

// monitor asks a member of an etcd for its size, as kube-apiserver's monitor does.
type monitor struct {
	client  *clientv3.Client
	servers []string
}

// Monitor implements metrics.Monitor. The collector gives it a second.
func (m *monitor) Monitor(ctx context.Context) (metrics.StorageMetrics, error) {
	status, err := m.client.Status(ctx, m.servers[rand.IntN(len(m.servers))]) //nolint:gosec // which member answers is no secret
	if err != nil {
		return metrics.StorageMetrics{}, err
	}
	return metrics.StorageMetrics{Size: status.DbSize}, nil
}

// Close implements metrics.Monitor. The collector of 1.36 calls it after each scrape, but the client is for the next one, too.
func (m *monitor) Close() error { return nil }
