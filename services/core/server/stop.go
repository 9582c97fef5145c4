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

// etcdInterval is how often a core that stops, and takes long, looks whether its etcd still answers.
const etcdInterval = time.Second

// untilStopped runs the API until it has stopped. Hooks of kube-apiserver remove leases from etcd when it stops, one after the other, and wait for
// each up to a minute. If etcd does not answer, nothing can be removed, and after patience nobody waits for them. Audit events that wait for a
// webhook are lost then, as when a server is killed.
func untilStopped(ctx context.Context, run func(context.Context) error, health http.Handler, patience time.Duration) error {
	stopped := make(chan error, 1)
	go func() { stopped <- run(ctx) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	for wait := patience; ; wait = etcdInterval {
		select {
		case err := <-stopped:
			return err
		case <-time.After(wait):
		}
		if !etcdAnswers(context.WithoutCancel(ctx), health) {
			klog.InfoS("Stopping without waiting any longer for an etcd that does not answer")
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
