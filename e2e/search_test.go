// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestSearch adds search with SQLite to the release, asks it, restarts it, and removes it again.
func TestSearch(t *testing.T) {
	r := shared(t)
	user := newUser(t, r)
	user.kubectl("", "create", "deployment", "before", "--image=example.com/app:v1")
	require.NoError(t, env.Volume(t.Context(), "tripod-search"))
	search := func(enabled bool) release.Values {
		return release.Values{"search": release.Values{
			"enabled": enabled, "database": release.Values{"storageClassName": environment.VolumeClass, "size": "1Gi"},
		}}
	}
	finds := func(name string) {
		framework.Eventually(t, "search finds "+name, func(ctx context.Context) error {
			out, err := r.Kubectl(ctx, "", "get", "--raw", "/apis/clusterpedia.io/v1beta1/resources/apis/apps/v1/namespaces/"+user.namespace+"/deployments?names="+name)
			if err == nil && !strings.Contains(out, "shadow.clusterpedia.io/cluster-name") {
				err = fmt.Errorf("got %s", out)
			}
			return err
		})
	}
	step(t, "helm adds search", func() error { return r.Upgrade(t.Context(), search(true)) })
	finds("before")
	step(t, "the pod of search is replaced", func() error {
		if _, err := r.HostKubectl(t.Context(), "", "rollout", "restart", "deployment/tripod-search"); err != nil {
			return err
		}
		return r.Settled(t.Context(), "search")
	})
	user.kubectl("", "create", "deployment", "after", "--image=example.com/app:v1")
	finds("before")
	finds("after")
	step(t, "helm removes search", func() error { return r.Upgrade(t.Context(), search(false)) })
}
