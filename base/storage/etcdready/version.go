// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdready

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/base/storage/etcdversion"
)

// checkVersion returns an error if an etcd that has answered is too old for Kubernetes. The first server that reports its version decides,
// so that those that are away delay nothing. Some versions of etcd report it only to the user root: these are new enough.
func checkVersion(ctx context.Context, client *clientv3.Client, servers string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	endpoints := client.Endpoints()
	decided, silent := make(chan error, len(endpoints)), make(chan struct{}, len(endpoints))
	for _, endpoint := range endpoints {
		go func() {
			status, err := client.Status(ctx, endpoint)
			switch {
			case errors.Is(err, rpctypes.ErrPermissionDenied):
				decided <- nil
			case err != nil:
				silent <- struct{}{}
			case etcdversion.IsEtcd(status.Header):
				decided <- etcdversion.CheckSupported(status.Version)
			default:
				decided <- nil
			}
		}()
	}
	for range endpoints {
		select {
		case err := <-decided:
			if err != nil {
				err = fmt.Errorf("etcd at %s: %w", servers, err)
			}
			return err
		case <-silent:
		}
	}
	return nil
}
