// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/controlplane"
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

// exchange makes a static pod the API server, and returns when the control plane works with it.
func (s *subject) exchange(t *testing.T, manifest []byte) {
	t.Helper()
	image, err := controlplane.ImageOf(manifest)
	require.NoError(t, err)
	s.use(t, image, func() error { return controlplane.UseOne(t.Context(), s.Cluster, manifest) })
}

// exchangeForServices makes a static pod of each service the API server, and returns when the control plane works with them.
func (s *subject) exchangeForServices(t *testing.T, manifest []byte) {
	t.Helper()
	image, err := controlplane.ImageOf(manifest)
	require.NoError(t, err)
	repository, tag, _ := strings.Cut(image, "/tripod:")
	services := controlplane.Services{Binary: "../../bin/tripod", Repository: repository, Tag: tag, Aggregator: 1, Core: 1, Extensions: 1}
	s.use(t, "a static pod of each service", func() error {
		return services.Use(t.Context(), s.Cluster, manifest)
	})
}

func (s *subject) use(t *testing.T, what string, exchange func() error) {
	t.Helper()
	began := time.Now()
	require.NoError(t, exchange())
	served := time.Since(began)
	require.NoError(t, controlplane.WaitForOthers(t.Context(), s.Cluster, began))
	s.waitForPods(t)
	t.Logf("%s serves after %s, the control plane works with it after %s", what,
		served.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond))
}

// waitForPods returns when a pod reaches the API server through its Service, whose endpoint kube-proxy follows.
func (s *subject) waitForPods(t *testing.T) {
	t.Helper()
	s.eventually(t, controlplane.ExchangeTimeout, "a pod reaches the API server", func(ctx context.Context) error {
		_, err := s.exec(ctx, kindcluster.SPDY, "client-0", "", "api", "/api/v1/namespaces/takeover/configmaps/settings")
		return err
	})
}

// eventually retries until there is no error.
func (s *subject) eventually(t *testing.T, timeout time.Duration, what string, try func(context.Context) error) {
	t.Helper()
	require.NoError(t, controlplane.Eventually(t.Context(), timeout, what, try))
}
