// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdclient_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/base/storage/etcdtest"
)

// apply configures a server as services do.
func apply(t *testing.T, etcd string) {
	t.Helper()
	metrics.Register() // as the server does when it installs /metrics
	o := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))
	o.StorageConfig.Transport.ServerList = []string{etcd}
	o.SkipHealthEndpoints = true
	config := genericapiserver.NewConfig(serializer.NewCodecFactory(runtime.NewScheme()))
	require.NoError(t, o.ApplyTo(config))
	require.NoError(t, etcdclient.ApplyMonitors(config))
}

// sizes returns the samples of the metric, or fails if a scrape takes longer than Prometheus waits.
func sizes(t *testing.T) (sizes []float64) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		families, err := legacyregistry.DefaultGatherer.Gather()
		for _, family := range families {
			if family.GetName() == "apiserver_storage_size_bytes" {
				for _, sample := range family.GetMetric() {
					sizes = append(sizes, sample.GetGauge().GetValue())
				}
			}
		}
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(10 * time.Second): // scrapeTimeout of the chart
		require.FailNow(t, "the scrape waits for etcd")
	}
	return sizes
}

func TestAScrapeDoesNotWaitForEtcd(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	apply(t, "http://"+silent.Addr().String())
	for range 2 {
		assert.Empty(t, sizes(t))
	}
}

func TestTheSizeOfEtcdIsAMetric(t *testing.T) {
	apply(t, etcdtest.Start(t).Endpoints()[0])
	for range 2 {
		all := sizes(t)
		require.Len(t, all, 1)
		assert.Positive(t, all[0])
	}
}
