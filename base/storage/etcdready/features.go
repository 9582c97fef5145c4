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
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/storage/etcdversion"
)

// firstWithSecretStatus is the first version of etcd that reports its status, and so its version, only to the user root. 3.6.9 is the first
// that reports it to all users again.
const firstWithSecretStatus = "3.6.0"

// checkFeatures has Kubernetes find out what the servers of etcd can do. It finds out once for each server, and this is the first to ask.
// Kubernetes itself would take a server that does not report its version for an old one, and serve no consistent lists from caches.
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
		status, err = &clientv3.StatusResponse{Version: firstWithSecretStatus}, nil
	}
	if err == nil {
		warnIfRangesAreOpen(ctx, client, endpoint, status.Version)
	}
	return status, err
}

// warnIfRangesAreOpen logs an error if this etcd has users, but lets them reach keys of others. The service starts nevertheless: it would
// not be safer without it.
func warnIfRangesAreOpen(ctx context.Context, client *clientv3.Client, endpoint, version string) {
	open := etcdversion.CheckRanges(version)
	if open == nil {
		return
	}
	// With users, only root may ask whether there are users.
	if _, err := client.AuthStatus(ctx); errors.Is(err, rpctypes.ErrPermissionDenied) {
		klog.ErrorS(open, "Users of etcd do not keep services to their own keys", "endpoint", endpoint)
	}
}
