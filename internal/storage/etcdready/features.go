// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdready

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apiserver/pkg/storage"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// firstWithSecretStatus is the first version of etcd that tells its status, and so its version, only to the user root.
const firstWithSecretStatus = "3.6.0"

// checkFeatures has Kubernetes find out what the servers of etcd can do. It finds out once for each server, and this is the first to ask.
// Kubernetes itself would take a server that does not tell its version for an old one, and serve no consistent lists from caches.
func checkFeatures(ctx context.Context, config storagebackend.TransportConfig) {
	etcdfeature.DefaultFeatureSupportChecker.CheckClient(ctx, versions{config}, storage.RequestWatchProgress)
}

// versions asks servers of etcd for their versions.
type versions struct {
	config storagebackend.TransportConfig
}

// Endpoints returns the servers, as storages name them.
func (v versions) Endpoints() []string { return v.config.ServerList }

// Status asks a server for its status. If the service may not know it, the version is the oldest possible one.
func (v versions) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	client, err := newClient(ctx, v.config)
	if err != nil {
		return nil, err
	}
	defer client.Close() //nolint:errcheck // nothing was written
	status, err := client.Status(ctx, endpoint)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return &clientv3.StatusResponse{Version: firstWithSecretStatus}, nil
	}
	return status, err
}
