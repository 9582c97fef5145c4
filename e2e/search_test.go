// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestSearch adds search with PostgreSQL to the release, asks it, replaces its pods and the database, and removes it again.
func TestSearch(t *testing.T) {
	r := shared(t)
	user := newUser(t, r)
	user.kubectl("", "create", "deployment", "before", "--image=example.com/app:v1")
	require.NoError(t, env.Volume(t.Context(), "tripod-search"))
	image, err := env.Postgres()
	require.NoError(t, err)
	search := func(enabled bool) release.Values {
		return release.Values{"search": release.Values{
			"enabled": enabled, "serve": release.Values{"replicas": 2},
			"database": release.Values{
				"postgres": release.Values{"enabled": enabled, "image": image}, "storageClassName": environment.VolumeClass, "size": "1Gi",
			},
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
	host := func(args ...string) error {
		_, err := r.HostKubectl(t.Context(), "", args...)
		return err
	}
	progress.Require(t, "helm adds search", func() error { return r.Upgrade(t.Context(), search(true)) })
	finds("before")
	progress.Require(t, "the pods of search are replaced", func() error {
		return errors.Join(host("rollout", "restart", "deployment/tripod-search", "deployment/tripod-search-sync"),
			r.Settled(t.Context(), "search"), r.Settled(t.Context(), "search-sync"))
	})
	progress.Require(t, "the pod of the database is replaced", func() error {
		return errors.Join(host("delete", "pod", "tripod-search-database-0"),
			host("rollout", "status", "statefulset/tripod-search-database", "--timeout=2m"))
	})
	user.kubectl("", "create", "deployment", "after", "--image=example.com/app:v1")
	finds("before")
	finds("after")
	progress.Require(t, "helm removes search", func() error { return r.Upgrade(t.Context(), search(false)) })
}
