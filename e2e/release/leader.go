// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// etcdMetricsPort answers without authentication.
const etcdMetricsPort = 2381

// Leads reports whether a member is the leader of its etcd.
func (r *Release) Leads(ctx context.Context, pod string) (bool, error) {
	address, stop, err := r.Forward(ctx, pod, etcdMetricsPort)
	if err != nil {
		return false, err
	}
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, fmt.Errorf("metrics of %s: %w", pod, err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	leads, err := framework.SumMetric(resp.Body, "etcd_server_is_leader")
	return leads == 1, err
}

// LostItsLeader reports whether a request failed because the leader of etcd handed over while a write was on its way there from another
// member. A leader that hands over drops such a write in silence. The other member answers after 7 s that it does not know what became of
// it, and kube-apiserver makes a 500 of each error of etcd that it does not know.
func LostItsLeader(f traffic.Failure) bool {
	return f.Code == http.StatusInternalServerError && f.Err != nil && strings.Contains(f.Err.Error(), "etcdserver: request timed out")
}
