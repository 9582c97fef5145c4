// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/klog/v2"
)

// etcdCheckInterval is the time between checks of etcd while a core takes longer than expected to stop.
const etcdCheckInterval = time.Second

// runUntilStopped runs the API server until it has stopped. When it stops, hooks of kube-apiserver remove leases from etcd, one after the
// other. Each may take a minute. If etcd does not answer, they cannot succeed, so runUntilStopped does not wait for them longer than
// grace. Audit events that wait for a webhook are lost then, as when a server is killed.
func runUntilStopped(ctx context.Context, run func(context.Context) error, health http.Handler, grace time.Duration) error {
	stopped := make(chan error, 1)
	go func() { stopped <- run(ctx) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	for wait := grace; ; wait = etcdCheckInterval {
		select {
		case err := <-stopped:
			return err
		case <-time.After(wait):
		}
		if !etcdAnswers(context.WithoutCancel(ctx), health) {
			klog.InfoS("Stopping although hooks still run, because etcd does not answer")
			return nil
		}
	}
}

func etcdAnswers(ctx context.Context, health http.Handler) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz/etcd", nil)
	if err != nil {
		return false
	}
	answer := responsewriter.NewInMemoryResponseWriter()
	health.ServeHTTP(answer, req)
	return answer.RespCode() == http.StatusOK
}
